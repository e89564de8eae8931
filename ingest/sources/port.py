"""The port to a source: facts, clock, snapshot, log. One implementation per kind.

Values and protocols only; rows of snapshots travel through Spark's JDBC.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from catalog.schema.limits import LIMITS
from core.errors import TerminalError
from core.sentences import Sentence
from ingest.contract.following import Replaced, SourceLog
from ingest.contract.positions import SourceClock
from ingest.contract.table import SourceSpec, TableSpec
from ingest.sources.dialects import Dialect
from ingest.sources.fingerprint import ServerFingerprint

Row = tuple[Any, ...]

ROWS_HIDDEN = "source_rows_hidden"
SEE_ALL_ROWS = Sentence(
    "at the source: ALTER ROLE … BYPASSRLS for the datasource's user, or sync a copy of"
    " the table that holds the wanted rows; then resume"
)


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """A source with its password, in memory only; `repr` does not show it.

    addresses  the only ones to connect to, checked by the host; () = look the name
               up here
    authorities  PEM file for tls 'verify'; "" = the system's
    """

    spec: SourceSpec
    password: str
    application: str
    addresses: tuple[str, ...] = ()
    authorities: str = ""

    def __repr__(self) -> str:
        return f"SourceAccess({self.spec.host}:{self.spec.port}, {self.application})"

    def at(self, address: str) -> SourceAccess:
        """Only there from now on: of several servers behind one name, a snapshot
        exists on the one that exported it. "" (no address) changes nothing."""
        return replace(self, addresses=(address,)) if address else self


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What the source guarantees about a key.

    types       SQL type text per column, in key order, as the dialect's `key_text` and
                `key_value` take it
    is_unique   a valid unique index over these columns, or over some of them: a key
                has no NULL
    is_walkable an ordered index that begins with them in this order
    is_not_null every column is declared NOT NULL
    is_exact    no two texts of its character sets are one text in Unicode
    """

    types: tuple[str, ...]
    is_unique: bool
    is_walkable: bool
    is_not_null: bool
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a row: on disk on average, and of the widest that was seen or, where
    looking is dear, that can be; 0 = not known."""

    average: int = 0
    widest: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What several connections read in.

    id      exported by the source; "" where connections cannot share one
    guard   statements that a reader runs first in the transaction in which it reads:
            they fail when the table's rows are no longer those of the snapshot
    """

    id: str = ""
    guard: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """What a whole load shows, of a source whose log is followed.

    at        position in the log: all that it shows was committed before; "" = each of
              its chunks shows a moment of its own, see `Source.here`
    snapshot  which transactions it shows, in the source's own form; "" with `at`
    """

    at: str
    snapshot: str


class Source(Protocol):
    """What a source can do by SQL, over one open connection, autocommit, read only; its
    log has a reader of its own.

    right_to_see_others  what `clock` needs to see others' transactions
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def right_to_see_others(self) -> str: ...

    @property
    def address(self) -> str:
        """The IP address this connection went to; "" when it has none."""

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Row]:
        """Every dynamic part of `sql` went through the dialect."""

    def one(self, sql: str, parameters: Sequence[object] | None = None) -> Row: ...

    def hang_up(self) -> None:
        """Wakes whoever waits on this connection for a source that is silent."""

    def waiting(self, seconds: float) -> dict[str, int]:
        """Statements of this connection that have had no answer for so long: a name of
        each wait → the connection's session at the source."""

    # ------------------------------------------------------------- facts of a table

    def definition(self, table: TableSpec) -> str:
        """Changes whenever the table is defined anew, made anew or rewritten."""

    def columns(self, table: TableSpec) -> dict[str, tuple[str, bool]]:
        """Column → (type text, NOT NULL) as the table is now. TerminalError
        `source_rows_hidden` when the login is shown some rows only."""

    def estimated_rows(self, table: TableSpec) -> int:
        """The planner's estimate, at least 0."""

    def key_facts(self, table: TableSpec, key: Sequence[str]) -> KeyFacts: ...

    # ----------------------------- rows of one moment, which several connections share

    @property
    def gave_way(self) -> str:
        """For which session the readers of the last snapshot were ended; "" = none."""

    def reading(
        self, table: TableSpec, *, can_renew: bool = True
    ) -> AbstractContextManager[Snapshot]:
        """A snapshot that others may import while inside, the same as before unless
        it was given back for want of readers. Then it is a new one, or, where the
        plan depends on the old one (`can_renew` False), TransientError
        `source_snapshot_lost`. No lock is held by it."""

    def within(self, table: TableSpec) -> AbstractContextManager[None]:
        """Statements of this connection inside see that snapshot, under its guard."""

    def give_back(self) -> None:
        """Ends the snapshot, if there is one."""

    def lock_holders(self, table: TableSpec) -> str:
        """Who holds the table's lock or waits for it, in words; "" = not known."""

    def widths(self, table: TableSpec) -> Widths:
        """How wide its rows are, cheaply. TerminalError `source_row_too_wide` when
        one cannot be read."""

    def pages(self, table: TableSpec) -> int:
        """Heap pages that can be read by number, or -1 when there are none."""

    def bad_text(self, table: TableSpec) -> str:
        """Where it has text that the source cannot send, in words, after it has failed
        to; "" = nothing found."""

    # ---------------------------------------------- rows that changed since some time

    def clock(self) -> SourceClock:
        """Time and open transactions of others, before any row is read."""

    def source_fingerprint(self, table: TableSpec) -> ServerFingerprint:
        """Who the server is, how far its log is, and which table this is."""

    # ------- when a snapshot has all that the log had by now: a commit is in the log
    # ------- before anybody else sees it

    def newest_transaction(self) -> int:
        """A number above those of all transactions that its log may have by now."""

    def who_is_open(self, before: int) -> str:
        """Who holds the oldest open transaction with a number below that, in words;
        "" = all of them are over, and any later snapshot shows them."""

    def here(self) -> str:
        """Position: all that was read until now was committed before it."""

    def moment(self) -> Moment:
        """Takes the snapshot in which `reading` reads from here on. It is never
        renewed: TransientError `source_snapshot_lost` once it was given back, until
        `give_back`."""


@dataclass(frozen=True, slots=True)
class LogNames:
    """What stands at the source for one stream; not every kind has both."""

    slot: str
    publication: str


@dataclass(frozen=True, slots=True)
class LogRows:
    """Rows of one table in the order of the log, as `ingest.sources.row_batches` has
    them, under the version of the plan by which they were read."""

    table_id: int
    schema_version: int
    batch: pa.RecordBatch


class LogReader(Protocol):
    """One connection that receives a source's log: transactions one behind the other,
    each whole, in the order in which they were committed. After an error it is of no
    use: who reads on begins anew behind what is durable."""

    @property
    def server(self) -> str:
        """Which server it is, as segments name it."""

    @property
    def begin(self) -> str:
        """Where a stream without segments begins, or one that begins `anew` or has
        `moved`: position, encoded."""

    @property
    def anew(self) -> str:
        """Why the stream cannot go on where it ended, as it was opened to begin anew
        then; "" = it goes on."""

    @property
    def moved(self) -> str:
        """The position at another server behind which this one goes on from `begin`
        without a gap; "" = it is the same server."""

    @property
    def problems(self) -> Mapping[int, str]:
        """Tables whose rows do not come, and why. It concerns no other table."""

    @property
    def gone(self) -> Mapping[int, tuple[str, ...]]:
        """Source tables that are not there any more, by their names: of a sharded
        table, which goes on with the others, once all of them is taken; any other one
        is one of the `problems`."""

    @property
    def dropped(self) -> Collection[int]:
        """Those of which the log had the end up to `position`: what it has under their
        names from there on is of others."""

    @property
    def unread(self) -> Collection[int]:
        """Tables that the log may have more of before they were looked at as they are
        now, and rows of others that had their names: no load begins before that."""

    def lost(self) -> dict[int, str]:
        """Tables of which something was passed over since this was last called, and
        why, though their rows may come again by now."""

    @property
    def identities(self) -> Mapping[int, str]:
        """Which tables of the source are followed, for `follow` after a death: of one
        that is made anew under its name, it is another."""

    @property
    def new_columns(self) -> Mapping[int, tuple[str, ...]]:
        """Columns that tables have at the source and not in their plan, or in a wider
        type. Rows have them, with `op`'s table's others, unless they are `left`."""

    @property
    def older(self) -> Mapping[int, Mapping[str, str | None]]:
        """Of columns that tables have since their cut, what they gave to rows that were
        there, where the log tells more of that than a look at the source."""

    @property
    def left(self) -> Mapping[int, tuple[str, ...]]:
        """Columns that tables have at the source, and their rows here do not."""

    @property
    def replaced(self) -> Mapping[int, Replaced]:
        """Tables whose place others took, from which their rows come since then: the
        newest of each, as long as its `identities` say so."""

    @property
    def is_within(self) -> bool:
        """Whether a transaction has begun whose end has not come."""

    @property
    def size(self) -> int:
        """Bytes that wait for `take`, about."""

    @property
    def position(self) -> str:
        """Up to where all that was committed came. A segment may end there, unless
        `is_within`."""

    @property
    def passed(self) -> int:
        """Bytes of the log between what was acknowledged and `position`."""

    @property
    def committed(self) -> int:
        """When the newest transaction with rows of wanted tables was committed,
        microseconds since 1970; 0 = none came."""

    @property
    def waits(self) -> str:
        """What the source is busy with while nothing comes; "" = nothing special."""

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """All whose rows are wanted from `position` on; what the source needs for
        that is done there. Between transactions, with nothing to `take`.

        anew    of these what came before does not matter: a load replaces it
        loaded  `identities` of tables when their load began: one that is another table
                now is a problem
        """

    def start(self, after: str) -> None:
        """What was committed behind that position comes. TerminalError `log_lost` when
        the source does not have all of it any more."""

    def read(self, seconds: float, *, to_boundary: bool = False) -> None:
        """Takes up what comes, waiting so long for the first of it; with `to_boundary`
        no more than up to the end of a transaction."""

    def take(self) -> list[LogRows]:
        """The rows that came, of a transaction that is not over, too."""

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        """Whether a position (`position`, by itself) is there, or beyond."""

    def here(self) -> str:
        """Where the log ends now: all that was committed until now is before it."""

    def acknowledge(self, position: str) -> None:
        """All up to there is durable here: the source may forget it."""

    def look(self) -> SourceLog:
        """How the log stands at the source, seldom; whatever shows only there becomes
        a problem of a table, or an error with a name."""


def row_too_wide(where: str, width: int = 0) -> TerminalError:
    """width  of its widest row, when it was looked for; 0 = more than fits"""
    most = LIMITS.result_bytes >> 20
    known = (
        Sentence("about %(width)s MiB", width=f"{width >> 20:,}")
        if width
        else Sentence("more than %(most)s MiB", most=most)
    )
    return TerminalError(
        "%(where)s has a row of %(known)s, and a row of more than %(most)s"
        " MiB is not read: trying again would not help. Nothing of this job"
        " is visible",
        where=where,
        known=known,
        most=most,
        code="source_row_too_wide",
        hint="shorten the value at the source, or add a view of the table that leaves"
        " the wide column out",
    )


def rows_hidden(where: str) -> TerminalError:
    """A sync would go on without them for ever, and a verification by the same login
    would find both sides equal."""
    return TerminalError(
        "row security at the source hides rows of %(where)s from the"
        " datasource's user, so nothing of it is read. Nothing of this job"
        " is visible",
        where=where,
        code=ROWS_HIDDEN,
        hint=SEE_ALL_ROWS,
    )


def session_in_words(pid: int, what: str, seconds: float) -> str:
    """What a server does for a job. what: a part of the sentence; "" = nothing known"""
    return Sentence(
        "its server runs pid %(pid)s%(what)s, for %(seconds)s s by now",
        pid=pid,
        what=what,
        seconds=int(seconds),
    )


def pinned_to(access: SourceAccess, factory: str) -> dict[str, str]:
    """JDBC options that send the connections to its addresses and nowhere else, with
    our times for keepalives, and by which all sockets of its application are found. The
    name in the URL stays for TLS, which by it picks the server and checks the
    certificate."""
    if not access.addresses:
        return {}
    keepalive = f"{LIMITS.keep_idle},{LIMITS.keep_interval},{LIMITS.keep_probes}"
    parts = (",".join(access.addresses), keepalive, access.application)
    return {"socketFactory": factory, "socketFactoryArg": ";".join(parts)}


class Waits:
    """Which statements of one connection wait for their server's answer, and for how
    long; each wait has a name of its own."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._since: dict[str, float] = {}

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Inside, one statement waits."""
        with self._lock:
            name = f"statement {next(self._numbers)}"
            self._since[name] = self._clock()
        try:
            yield
        finally:
            with self._lock:
                del self._since[name]

    def longer_than(self, seconds: float) -> list[str]:
        now = self._clock()
        with self._lock:
            return [n for n, since in self._since.items() if now - since >= seconds]
