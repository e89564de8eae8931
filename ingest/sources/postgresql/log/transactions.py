"""When everything that the log has by now can be seen, and by whom it is held up.

A commit is in the log, and with whoever follows it, before others see what it wrote;
with synchronous replication that may take long. So a load that begins behind a place of
the log waits until what had begun by then is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg

from core.errors import TerminalError
from ingest.contract.source_positions import PostgresLog, lsn_of
from ingest.sources.port import Row

One = Callable[[str, Sequence[object] | None], Row]

# Its own number: `xmax` of a snapshot is only above those that are over.
_NEWEST = "SELECT txid_current()"
_OLDEST = "SELECT txid_snapshot_xmin(txid_current_snapshot())"
# Numbers wrap in what sessions show of themselves.
_WHO = """
SELECT coalesce(
  (SELECT format('pid %%s (%%s, %%s)', pid, usename, coalesce(wait_event, state))
   FROM pg_stat_activity WHERE backend_xid::text::bigint = o.xid %% 4294967296
   LIMIT 1),
  (SELECT format('the prepared transaction %%s', gid)
   FROM pg_prepared_xacts WHERE transaction::text::bigint = o.xid %% 4294967296
   LIMIT 1),
  format('transaction %%s', o.xid))
FROM (SELECT %s::bigint) o(xid)
"""
_SERVER = "SELECT system_identifier FROM pg_control_system()"
# Taken before the name of the file, which has the timeline.
_PLACE = """
SELECT pg_current_wal_insert_lsn()::text,
  substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
"""


def newest_transaction(one: One) -> int:
    return int(one(_NEWEST, None)[0])


def who_is_open(one: One, before: int) -> str:
    oldest = int(one(_OLDEST, None)[0])
    if oldest >= before:
        return ""
    return str(one(_WHO, [oldest])[0])


def read_place(one: One) -> PostgresLog:
    """Where the log ends now. TerminalError `source_identity_hidden`."""
    try:
        (server,) = one(_SERVER, None)
    except psycopg.errors.InsufficientPrivilege as error:
        raise TerminalError(
            "the source does not tell the datasource's user which server it is, so a"
            " place in its log means nothing. Nothing was read",
            code="source_identity_hidden",
            hint="at the source: GRANT EXECUTE ON FUNCTION pg_control_system() TO the"
            " datasource's user; then start the load again",
        ) from error
    lsn, timeline = one(_PLACE, None)
    return PostgresLog(str(server), int(timeline, 16), lsn_of(lsn))
