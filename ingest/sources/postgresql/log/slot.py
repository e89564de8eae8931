"""The slot that keeps the log for one stream: made once, looked at, dropped.

Statements of an ordinary connection; nothing here reads the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from core.errors import InvalidRequest, TerminalError, TransientError
from core.sentences import Sentence
from ingest.contract.source_positions import PostgresLog, lsn_of, lsn_text
from ingest.sources.port import Row

ANEW = Sentence("start its follower over, then resync its tables")

_MAKE = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
_DROP = (
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
    " WHERE slot_name = %s AND NOT active"
)
_END_HOLDER = (
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
    " WHERE slot_name = %s AND active"
)
_LOOK = """
SELECT plugin, coalesce(nullif(database, current_database())::text, ''), active,
  coalesce(confirmed_flush_lsn, '0/0')::text, coalesce(wal_status, 'lost'),
  coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
    ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint, safe_wal_size,
  coalesce(to_jsonb(s) ->> 'invalidation_reason', '')
FROM pg_replication_slots s WHERE slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class Slot:
    """confirmed  up to where the server was told that all is durable
    is_lost    the server threw away what the slot needs: it is of no use any more
    kept       bytes of the log that the server keeps for it
    left       bytes that may come before it is lost; None = without a limit
    status     the server's word for that (wal_status)
    elsewhere  the database that it is of, where another one answers by our name for it
    lost_by    why it is lost, as PostgreSQL 17 and later say it
    """

    confirmed: int
    is_active: bool
    is_lost: bool
    kept: int
    left: int | None
    status: str
    elsewhere: str = ""
    lost_by: str = ""


def read_slot(connection: psycopg.Connection[Row], name: str) -> Slot | None:
    """None when there is none. InvalidRequest `slot_of_another` when it is not of
    pgoutput."""
    found = connection.execute(_LOOK, [name]).fetchone()
    if found is None:
        return None
    plugin, elsewhere, is_active, confirmed, state, kept, left, lost_by = found
    if plugin != "pgoutput":
        raise InvalidRequest(
            "the slot %(slot)s at the source is used for something else (%(plugin)s)",
            slot=name,
            plugin=plugin,
            code="slot_of_another",
            hint="drop it when it is no longer needed, or choose another name",
        )
    is_lost = state == "lost"
    confirmed = lsn_of(confirmed)
    return Slot(
        confirmed, bool(is_active), is_lost, int(kept), left, state, elsewhere, lost_by
    )


def kept_slot(slot: Slot | None, name: str, after: PostgresLog) -> Slot:
    """TerminalError `log_lost` when it does not have all behind that position, and
    `source_changed` when it has the log of another database."""
    if slot is not None and slot.elsewhere:
        raise TerminalError(
            "the log was read from the database %(database)s (slot %(slot)s), and"
            " another database answers now: that one was renamed. Nothing was read",
            start_over=ANEW,
            database=slot.elsewhere,
            slot=name,
            code="source_changed",
            hint="let the datasource name %(database)s, or %(start_over)s",
        )
    why = ""
    if slot is None:
        why = Sentence("its replication slot %(slot)s is gone", slot=name)
    elif slot.is_lost:
        why = Sentence(
            "the server gave its replication slot %(slot)s up (%(why)s)",
            slot=name,
            why=slot.lost_by or "wal_status lost",
        )
    elif slot.confirmed > after.lsn:
        why = Sentence(
            "its replication slot %(slot)s stands at %(confirmed)s already, behind"
            " %(lsn)s",
            slot=name,
            confirmed=lsn_text(slot.confirmed),
            lsn=lsn_text(after.lsn),
        )
    if slot is None or why:
        raise TerminalError(
            "the source does not have all of its log behind %(after)s any more:"
            " %(why)s. Changes are missing",
            after=lsn_text(after.lsn),
            why=why,
            code="log_lost",
            hint=ANEW,
        )
    return slot


def make_slot(connection: psycopg.Connection[Row], name: str) -> int:
    """Where the log of the new slot begins. The publication came before: a slot knows
    of none that was made later than the changes that it decodes."""
    found = connection.execute(_MAKE, [name]).fetchone()
    assert found is not None
    return lsn_of(str(found[0]))


def end_holder(connection: psycopg.Connection[Row], name: str) -> None:
    """Ends the session that receives the slot's log, of a reader that was superseded:
    the chain shuts it out, and the slot has to be free. TransientError `slot_in_use`
    when that session is of a login that ours may not end."""
    try:
        connection.execute(_END_HOLDER, [name])
    except psycopg.errors.InsufficientPrivilege as error:
        raise TransientError(
            "the slot %(slot)s at the source is in use by a session of another login",
            slot=name,
            code="slot_in_use",
            hint="end that session at the source; pg_replication_slots has its"
            " active_pid",
        ) from error


def drop_slot(connection: psycopg.Connection[Row], name: str) -> bool:
    """False when it is not there, or somebody receives its log."""
    return connection.execute(_DROP, [name]).fetchone() is not None
