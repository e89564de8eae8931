"""The statements that discovery runs on PostgreSQL 12 and later.

System catalogs only, no table is opened, a bounded number of statements per page
whatever the number of tables.
"""

from __future__ import annotations

# search_path '' makes format_type() name user types the same for every login.
SETTINGS = """
SELECT set_config('search_path', '', true),
       set_config('statement_timeout', %(statement_ms)s, true),
       set_config('lock_timeout', '2000', true),
       set_config('idle_in_transaction_session_timeout', '60000', true),
       set_config('TimeZone', 'UTC', true)
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
SELECT count(*), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') {TABLES}
"""

_TABLE_COLUMNS = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relnatts,
       coalesce(obj_description(c.oid, 'pg_class'), ''),
       coalesce(has_schema_privilege(n.oid, 'USAGE')
                AND has_table_privilege(c.oid, 'SELECT'), false),
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

# `walk` goes from a column's type through domains, and once through an array, down
# to the type that is stored. A type is a true array when its element says so.
COLUMNS = """
WITH RECURSIVE attribute AS (
    SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
           a.attndims
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = ANY(%(oids)s) AND a.attnum > 0 AND NOT a.attisdropped
), walk AS (
    SELECT u.atttypid AS start, u.atttypmod AS start_mod, u.atttypid AS oid,
           u.atttypmod AS mod, false AS in_array, 0 AS depth
    FROM (SELECT DISTINCT atttypid, atttypmod FROM attribute) u
  UNION ALL
    SELECT w.start, w.start_mod,
           CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END,
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE w.mod END,
           w.in_array OR t.typtype <> 'd', w.depth + 1
    FROM walk w
    JOIN pg_catalog.pg_type t ON t.oid = w.oid
    LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
    WHERE t.typtype = 'd' OR (e.oid IS NOT NULL AND NOT w.in_array)
), base AS (
    SELECT DISTINCT ON (w.start, w.start_mod) w.start, w.start_mod, w.in_array,
           format_type(w.oid, w.mod) AS text, t.typtype::text AS kind
    FROM walk w JOIN pg_catalog.pg_type t ON t.oid = w.oid
    ORDER BY w.start, w.start_mod, w.depth DESC
)
SELECT a.attrelid, a.attnum, a.attname, b.text, b.kind, b.in_array, a.attndims,
       a.attnotnull, coalesce(d.description, '')
FROM attribute a
JOIN base b ON b.start = a.atttypid AND b.start_mod = a.atttypmod
LEFT JOIN pg_catalog.pg_description d
    ON d.classoid = 'pg_catalog.pg_class'::regclass
    AND d.objoid = a.attrelid AND d.objsubid = a.attnum
ORDER BY a.attrelid, a.attnum
"""

INDEXES = """
SELECT i.indrelid, i.indisprimary,
       i.indisunique AND i.indimmediate AND i.indexprs IS NULL AS is_unique,
       (i.indkey::int2[])[0:i.indnkeyatts - 1]
FROM pg_catalog.pg_index i
WHERE i.indrelid = ANY(%(oids)s) AND i.indisvalid AND i.indpred IS NULL
ORDER BY i.indrelid, i.indexrelid
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

# Takes no lock: for when somebody holds one that SIZES would wait for.
SIZES_WITHOUT_LOCK = f"""
{_TREE}
SELECT tree.root, sum(greatest(c.reltuples, 0))::bigint,
       sum(c.relpages::bigint * current_setting('block_size')::int)::bigint, 0::bigint
{_LEAVES}
"""
