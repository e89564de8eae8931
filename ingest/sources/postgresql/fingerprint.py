"""Who a PostgreSQL server is and which table a name means now."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import psycopg

from ingest.sources.fingerprint import MOST_FILES, ServerFingerprint

One = Callable[[str, Sequence[object] | None], tuple[Any, ...]]
Forms = dict[str, dict[str, str]]


def read_fingerprint(
    one: One, relation: str, columns: Collection[str]
) -> ServerFingerprint:
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
    return ServerFingerprint(
        relation=str(oid),
        is_exact=True,
        files=tuple(int(number) for number in files),
        server=str(server),
        timeline=timeline or int(of_checkpoint),
        log={"transaction": int(xid)},
        columns={name: int(numbers[name]) for name in columns if name in numbers},
        forms=_forms(one, oid, columns),
        is_subscriber=bool(is_subscriber),
    )


def _forms(one: One, relation: int, columns: Collection[str]) -> Forms:
    found = read_forms(one, [relation]).get(relation, {})
    return {name: forms for name, forms in found.items() if name in columns}


def read_forms(one: One, relations: Sequence[int]) -> dict[int, Forms]:
    """See `ServerFingerprint.forms`, by table and column."""
    (found,) = one(_FORMS, [[*relations]] * 2)
    forms: dict[int, Forms] = {}
    for relation, column, kept, form in json.loads(found):
        forms.setdefault(relation, {}).setdefault(column, {})[kept] = form
    return forms


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
# Types that values of a column consist of: an array's elements, what a domain stands
# for, a composite's attributes, a range's bounds. The text of a composite has no names
# of attributes, so only how many there are counts.
_FORMS = """
WITH RECURSIVE kind(relid, attname, oid) AS (
  SELECT a.attrelid, a.attname, a.atttypid FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid AND (t.typtype <> 'b' OR t.typelem <> 0)
  WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
UNION
  SELECT k.relid, k.attname, inside.oid
  FROM kind k JOIN pg_type t ON t.oid = k.oid, LATERAL (
    SELECT t.typbasetype WHERE t.typtype = 'd'
    UNION ALL SELECT t.typelem WHERE t.typelem <> 0
    UNION ALL SELECT a.atttypid FROM pg_attribute a
    WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0
      AND NOT a.attisdropped
    -- multiranges came with PostgreSQL 14
    UNION ALL SELECT r.rngsubtype FROM pg_range r
    WHERE t.typtype IN ('r', 'm')
      AND t.oid IN (r.rngtypid, (to_jsonb(r) ->> 'rngmultitypid')::oid)
  ) inside(oid)
), form(relid, attname, kept, form) AS (
  SELECT k.relid, k.attname, e.oid::text, e.enumlabel
  FROM kind k JOIN pg_enum e ON e.enumtypid = k.oid
UNION ALL
  SELECT k.relid, k.attname, t.oid::text, 'attributes ' || (
    SELECT coalesce(string_agg(a.attnum::text, ' ' ORDER BY a.attnum), '')
    FROM pg_attribute a
    WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
  FROM kind k JOIN pg_type t ON t.oid = k.oid AND t.typtype = 'c'
UNION ALL
  SELECT a.attrelid, a.attname, 'generated', pg_get_expr(d.adbin, d.adrelid)
  FROM pg_attribute a JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
  WHERE a.attrelid = ANY(%s::oid[]) AND a.attgenerated <> '' AND NOT a.attisdropped
)
SELECT coalesce(jsonb_agg(jsonb_build_array(relid::bigint, attname, kept, form)),
  '[]')::text FROM form
"""
