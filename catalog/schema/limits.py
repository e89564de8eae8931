"""How long, and how much at once, Sluice may occupy a source: all figures in one place.

Shared by discovery, connection tests and jobs. `docs/reading.md` explains each. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Seconds unless said otherwise.

    connect         until a connection is made and logged in
    lock            a statement waits so long for a lock on a table, then gives up
    glance_lock     the same for discoveries and connection tests, which can wait
    statement       one statement of a job until its next rows
    reader          one statement of a reader of MariaDB until its last row is taken
    silent          a socket of a job without any byte; more than `statement`, so that
                    a server that is merely slow says so itself
    quiet           nothing has come of a job for so long: its source is asked what it
                    does, on a connection made for that
    unanswered      a source that answers no such connection for so long is silent, and
                    the reading ends
    beat            between two signs of life of an exported snapshot
    abandoned       the source ends a snapshot's transaction on its own when it has
                    heard nothing of us for so long
    reader_idle     the same for a reader, which pauses while Spark writes its rows
    unused          a snapshot that no reader uses is given back after this time
    kept            the same where reading could not go on in another snapshot
    give_way        a reader is ended when another session has waited so long for a lock
                    that it stands in the way of
    keep_*          TCP keepalives: idle time, interval, probes
    unacknowledged  sent data may stay without an acknowledgement (not on JDBC's
                    connections: Java has no such option)
    result_bytes    bytes of rows in a driver's buffer for one reader
    """

    connect: int = 10
    lock: int = 5
    glance_lock: int = 2
    statement: int = 900
    reader: int = 21_600
    silent: int = 960
    quiet: int = 30
    unanswered: int = 60
    beat: float = 2.0
    abandoned: int = 60
    reader_idle: int = 600
    unused: int = 10
    kept: int = 60
    give_way: int = 10
    keep_idle: int = 30
    keep_interval: int = 10
    keep_probes: int = 3
    unacknowledged: int = 60
    result_bytes: int = 64 << 20


LIMITS = SourceLimits()

KEEPALIVE = {
    "idle": LIMITS.keep_idle,
    "interval": LIMITS.keep_interval,
    "probes": LIMITS.keep_probes,
    "unacknowledged": LIMITS.unacknowledged,
}
# The same in libpq's words, which sets them on its sockets itself.
LIBPQ_KEEPALIVE = (
    f"keepalives=1 keepalives_idle={LIMITS.keep_idle}"
    f" keepalives_interval={LIMITS.keep_interval}"
    f" keepalives_count={LIMITS.keep_probes}"
    f" tcp_user_timeout={LIMITS.unacknowledged * 1_000}"
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a source sees of one job that reads it, at most.

    readers       connections that read rows; all jobs of a source share them
    others        connections of a job that do not
    transactions  open at once
    """

    readers: int
    others: int
    transactions: int

    @property
    def connections(self) -> int:
        return self.readers + self.others


# Of `sql_select_limit`, with which MariaDB and MySQL begin; its DEFAULT is what the
# administrator chose.
EVERY_ROW = 2**64 - 1
