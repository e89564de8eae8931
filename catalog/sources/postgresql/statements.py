"""The statements that discovery runs on PostgreSQL 12 and later.

System catalogs only, no table is opened, a bounded number of statements per page
whatever the number of tables.
"""

from __future__ import annotations

# search_path '' makes format_type() name user types the same for every login, and
# others the same whatever a role or database has set.
SETTINGS = """
SELECT set_config('search_path', '', true),
       set_config('statement_timeout', %(statement_ms)s, true),
       set_config('lock_timeout', %(lock_ms)s, true),
       set_config('idle_in_transaction_session_timeout', %(idle_ms)s, true),
       set_config('TimeZone', 'UTC', true),
       set_config('DateStyle', 'ISO', true),
       set_config('IntervalStyle', 'iso_8601', true),
       set_config('extra_float_digits', '1', true),
       set_config('bytea_output', 'hex', true),
       set_config('lc_monetary', 'C', true),
       set_config('quote_all_identifiers', 'off', true),
       (SELECT count(set_config(name, '0', true)) FROM pg_catalog.pg_settings
        WHERE name IN ('idle_session_timeout', 'transaction_timeout'))
"""

_SCHEMAS = """
    n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    AND (cardinality(%(include)s::text[]) = 0 OR n.nspname = ANY(%(include)s::text[]))
    AND n.nspname <> ALL(%(exclude)s::text[])
"""
TABLES = f"""
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
    AND {_SCHEMAS}
"""

DATABASES = f"""
SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE {_SCHEMAS} ORDER BY 1
"""

COUNT = f"""
SELECT count(*), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       pg_is_in_recovery() {TABLES}
"""

# Of the zone that sessions get by default, whatever ours is: within a year.
ZONE = """
SELECT min(o.seconds), max(o.seconds)
FROM pg_settings s, generate_series(-52, 52) weeks,
  LATERAL (SELECT now() + weeks * interval '7 days') t(at),
  LATERAL (SELECT extract(epoch FROM (t.at AT TIME ZONE s.reset_val)
                                   - (t.at AT TIME ZONE 'UTC'))::int) o(seconds)
WHERE s.name = 'TimeZone'
"""

_TABLE_COLUMNS = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relnatts,
       coalesce(obj_description(c.oid, 'pg_class'), ''),
       coalesce(has_schema_privilege(n.oid, 'USAGE')
                AND has_any_column_privilege(c.oid, 'SELECT'), false),
       row_security_active(c.oid)
"""

PAGE = f"""
{_TABLE_COLUMNS} {TABLES}
    AND (n.nspname, c.relname) > (%(after_schema)s::name, %(after_table)s::name)
    ORDER BY n.nspname, c.relname LIMIT %(limit)s
"""

ONE_TABLE = f"""
{_TABLE_COLUMNS} {TABLES} AND n.nspname = %(schema)s AND c.relname = %(table)s
"""

INDEXES = """
SELECT i.indrelid, i.indisprimary,
       i.indisunique AND i.indimmediate AND i.indexprs IS NULL AS is_unique,
       (i.indkey::int2[])[0:i.indnkeyatts - 1]
FROM pg_catalog.pg_index i
WHERE i.indrelid = ANY(%(oids)s) AND i.indisvalid AND i.indpred IS NULL
ORDER BY i.indrelid, i.indexrelid
"""

# Of the tables in oids: whether plain ones have children, and whether any row that a
# SELECT shows is at another server, or in no log.
TRAITS = """
WITH RECURSIVE tree AS (
    SELECT o.oid AS root, o.oid FROM unnest(%(oids)s::oid[]) AS o(oid)
  UNION
    SELECT tree.root, i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid
)
SELECT tree.root,
       bool_or(tree.oid <> tree.root) AND bool_and(r.relkind <> 'p') AS has_children,
       bool_or(c.relkind = 'f') AS is_foreign,
       bool_or(c.relpersistence = 'u') AS is_unlogged
FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
JOIN pg_catalog.pg_class r ON r.oid = tree.root
GROUP BY tree.root
"""

_TREE = """
WITH RECURSIVE tree AS (
    SELECT o.oid AS root, o.oid FROM unnest(%(oids)s::oid[]) AS o(oid)
  UNION ALL
    SELECT tree.root, i.inhrelid
    FROM tree
    JOIN pg_catalog.pg_class p ON p.oid = tree.oid AND p.relkind = 'p'
    JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid
)
"""
_LEAVES = """
FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
WHERE c.relkind IN ('r', 'm') GROUP BY tree.root
"""

# rows as the planner would guess; bytes of tables that were never analysed apart
SIZES = f"""
{_TREE}
SELECT tree.root,
       sum(CASE WHEN c.reltuples < 0 THEN 0
                WHEN c.relpages = 0 THEN c.reltuples
                ELSE c.reltuples / c.relpages * pg_relation_size(c.oid)
                     / current_setting('block_size')::int END)::bigint,
       sum(pg_table_size(c.oid))::bigint,
       coalesce(sum(pg_table_size(c.oid)) FILTER (WHERE c.reltuples < 0), 0)::bigint
{_LEAVES}
"""

# Takes no lock: for when another session holds one that SIZES would wait for.
SIZES_WITHOUT_LOCK = f"""
{_TREE}
SELECT tree.root, sum(greatest(c.reltuples, 0))::bigint,
       sum(c.relpages::bigint * current_setting('block_size')::int)::bigint, 0::bigint
{_LEAVES}
"""
