"""What a PostgreSQL server's clock shows, and who has a transaction open there."""

from __future__ import annotations

from collections.abc import Callable

from ingest.contract.positions import OpenTransaction, Replica, SourceClock
from ingest.sources.port import Row


def read_clock(one: Callable[[str], Row]) -> SourceClock:
    """The time, then the open transactions of others: a transaction that begins
    between the two statements is younger than the time."""
    now, offsets, sees, is_standby, replayed, may_control = one(_CLOCK)
    if is_standby and may_control:
        (checkpoint,) = one(_CHECKPOINT)
        replayed = max(replayed or checkpoint, checkpoint)
    pids, starts, hidden, names, times = one(_TRANSACTIONS)
    replica = Replica(replayed) if is_standby else None
    if is_standby:
        # sessions there only read; those that write are on the primary
        pids = starts = None
    transactions = [
        OpenTransaction(pid, since)
        for pid, since in zip(pids or (), starts or (), strict=True)
    ]
    transactions += [
        OpenTransaction(0, since, is_prepared=True, name=name)
        for name, since in zip(names or (), times or (), strict=True)
    ]
    return SourceClock(
        now,
        tuple(transactions),
        bool(sees) and (is_standby or not hidden),
        (int(offsets[0]), int(offsets[1])),
        replica,
    )


# The zone is the one sessions get by default, not the one we set. A standby has
# replayed up to the last commit; with all of the log that the sender had when it sent
# its last message, up to that message, whose time only pg_read_all_stats may see. But a
# sender that is a standby itself goes on sending messages when it is cut off from the
# primary, and nothing tells one from the other: the sender counts when the connection
# was only made because it is the primary. Before its first message the two times are
# that of the beginning.
_CLOCK = """
SELECT clock_timestamp(),
  (SELECT ARRAY[min(o.seconds), max(o.seconds)]
   FROM pg_settings s, generate_series(-52, 52) weeks,
     LATERAL (SELECT now() + weeks * interval '7 days') t(at),
     LATERAL (SELECT extract(epoch FROM (t.at AT TIME ZONE s.reset_val)
                                      - (t.at AT TIME ZONE 'UTC'))::int) o(seconds)
   WHERE s.name = 'TimeZone'),
  pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
  pg_is_in_recovery(),
  CASE WHEN pg_is_in_recovery() THEN greatest(
    pg_last_xact_replay_timestamp(),
    (SELECT max(w.last_msg_send_time) FROM pg_stat_wal_receiver w
     WHERE w.status = 'streaming' AND w.latest_end_lsn <= pg_last_wal_replay_lsn()
       AND w.last_msg_send_time <> w.last_msg_receipt_time
       AND w.conninfo ~ '\\mtarget_session_attrs=(primary|read-write)\\M'))
  END,
  has_function_privilege('pg_control_checkpoint()', 'EXECUTE')
"""
# Of the primary, and replayed: all that a standby knows when it was started and the
# primary has committed nothing since.
_CHECKPOINT = "SELECT checkpoint_time FROM pg_control_checkpoint()"
# Autovacuum and the like never write rows of users. Sluice's own transactions only
# read. Arrays side by side: psycopg reads the fields of anonymous records as text.
# Without track_activities a session does not say when its transaction began. One that
# has written has a number, and did not begin before its session; others may write yet.
_TRANSACTIONS = """
SELECT active.pids, active.starts, active.hidden, prepared.names, prepared.times
FROM
  (SELECT array_agg(a.pid) FILTER (WHERE a.since IS NOT NULL) AS pids,
     array_agg(a.since) FILTER (WHERE a.since IS NOT NULL) AS starts,
     coalesce(bool_or(a.state = 'disabled'), false) AS hidden
   FROM (
     SELECT *, coalesce(xact_start, CASE WHEN state = 'disabled'
       AND backend_xid IS NOT NULL THEN backend_start END) AS since
     FROM pg_stat_activity
   ) AS a
   WHERE a.pid <> pg_backend_pid()
     AND a.datname = current_database()
     AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender')
     AND NOT (a.application_name LIKE 'sluice:%' AND a.usename = current_user)
  ) AS active,
  (SELECT array_agg(p.gid) AS names, array_agg(p.prepared) AS times
   FROM pg_prepared_xacts p WHERE p.database = current_database()
  ) AS prepared
"""
