"""Who a PostgreSQL server is and which table a name means now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import psycopg

from ingest.sources.signs import MOST_FILES, ServerSigns

One = Callable[[str, Sequence[object] | None], tuple[Any, ...]]


def read_signs(one: One, relation: str, columns: Collection[str]) -> ServerSigns:
    """`relation` as it is quoted in SQL, `columns` that are synced. What the login may
    not ask is not known."""
    oid, xid, is_standby, files, numbers, is_subscriber = one(_COMMON, [relation])
    timeline = 0
    if not is_standby:
        # a checkpoint tells of a promotion later than the name of the log does
        timeline = int(str(one(_LOG_FILE, None)[0])[:8], 16)
    try:
        server, of_checkpoint = one(_CONTROL, None)
    except psycopg.errors.InsufficientPrivilege:
        server, of_checkpoint = "", 0
    return ServerSigns(
        relation=str(oid),
        is_exact=True,
        files=tuple(int(number) for number in files),
        server=str(server),
        timeline=timeline or int(of_checkpoint),
        log={"transaction": int(xid)},
        columns={name: int(numbers[name]) for name in columns if name in numbers},
        is_subscriber=bool(is_subscriber),
    )


_PARTS = "(SELECT t.oid UNION SELECT relid FROM pg_partition_tree(t.oid)) part(oid)"
_COMMON = f"""
SELECT t.oid, txid_snapshot_xmax(txid_current_snapshot()), pg_is_in_recovery(),
  ARRAY(SELECT pg_relation_filenode(part.oid)::bigint
        FROM {_PARTS}
        WHERE pg_relation_filenode(part.oid) IS NOT NULL ORDER BY 1 LIMIT {MOST_FILES}),
  (SELECT coalesce(jsonb_object_agg(a.attname, a.attnum), '{{}}') FROM pg_attribute a
   WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped),
  EXISTS (SELECT 1 FROM pg_subscription_rel s JOIN {_PARTS} ON part.oid = s.srrelid)
FROM (SELECT %s::regclass::oid) t(oid)
"""
_LOG_FILE = "SELECT pg_walfile_name(pg_current_wal_lsn())"
_CONTROL = """
SELECT (SELECT system_identifier FROM pg_control_system()),
       (SELECT timeline_id FROM pg_control_checkpoint())
"""
