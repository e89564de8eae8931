"""The statement that names the columns of PostgreSQL tables and their types. Pure.

Discovery plans by these names and drivers compare with them before they read, so both
ask the same question: a column of a domain has the name of the type that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# From types of columns (`attribute`) through domains, and once through an array, down
# to the type that is stored. A type is a true array when its element says so.
_WALK = """walk AS (
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
"""
COLUMNS = f"""
WITH RECURSIVE attribute AS (
    SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod,
           a.attnotnull AND NOT EXISTS (
               -- NOT VALID, from 18 on: rows of before may have NULL
               SELECT FROM pg_catalog.pg_constraint c
               WHERE c.conrelid = a.attrelid AND c.contype = 'n'
                 AND NOT c.convalidated AND a.attnum = ANY(c.conkey)
           ) AS attnotnull,
           a.attndims, a.attcollation,
           has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS may_select
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = ANY(%(oids)s) AND a.attnum > 0 AND NOT a.attisdropped
), {_WALK}
SELECT a.attrelid, a.attnum, a.attname, b.text, b.kind, b.in_array, a.attndims,
       a.attnotnull, coalesce(d.description, ''),
       coalesce(NOT l.collisdeterministic, false), coalesce(a.may_select, false)
FROM attribute a
JOIN base b ON b.start = a.atttypid AND b.start_mod = a.atttypmod
LEFT JOIN pg_catalog.pg_description d
    ON d.classoid = 'pg_catalog.pg_class'::regclass
    AND d.objoid = a.attrelid AND d.objsubid = a.attnum
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
ORDER BY a.attrelid, a.attnum
"""
# Of types as the log tells them: number and modifier each.
TYPES = f"""
WITH RECURSIVE attribute AS (
    SELECT * FROM unnest(%(oids)s::oid[], %(modifiers)s::int[]) u(atttypid, atttypmod)
), {_WALK}
SELECT start::bigint, start_mod, text, kind, in_array FROM base
"""


def readable(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of COLUMNS of one table: those of columns that the login may SELECT; all
    where there is none, since the table as a whole is refused then."""
    found = list(rows)
    return [row for row in found if row[-1]] or found


_IDENTITY = """
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i
        JOIN pg_catalog.pg_attribute a ON a.attrelid = {table}.oid
        WHERE i.indrelid = {table}.oid AND i.indisvalid
        AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
        AND CASE {table}.relreplident WHEN 'd' THEN i.indisprimary
                                      WHEN 'i' THEN i.indisreplident ELSE false END
        ORDER BY a.attnum)
"""
# Names of the columns that former rows of the table c have, unless it is FULL.
IDENTITY = _IDENTITY.format(table="c")
# Of the table c: names of columns that gave a value to the rows that were there as they
# were added, and those values; and columns of which nobody knows whether they did. What
# a partition has of it is its own.
OLDER = """
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.atthasmissing AND NOT a.attisdropped
        ORDER BY a.attnum),
  ARRAY(SELECT (a.attmissingval::text::text[])[1] FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.atthasmissing AND NOT a.attisdropped
        ORDER BY a.attnum),
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        AND NOT a.atthasmissing AND a.attgenerated = ''
        AND (a.atthasdef OR a.attidentity <> '' OR EXISTS (
            SELECT FROM pg_catalog.pg_partition_tree(c.oid) p
            JOIN pg_catalog.pg_attribute l ON l.attrelid = p.relid
            WHERE c.relkind = 'p' AND l.attname = a.attname AND l.atthasmissing))
        ORDER BY a.attnum)
"""
# Partitions of c and theirs. pg_partition_tree waits for whoever locks one of them.
PARTS = """
  (WITH RECURSIVE b(oid) AS (
     SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid
     UNION ALL
     SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN b ON i.inhparent = b.oid)
   SELECT b.oid FROM b) AS"""
# Partitions of the table c, quoted, whose former rows have less than its identity says.
# The log sends them under the name of the table, with NULL for what they lack, and
# ALTER TABLE … REPLICA IDENTITY of the table does not reach them.
LESSER_PARTS = f"""
  ARRAY(SELECT l.oid::regclass::text FROM {PARTS} p(relid)
        JOIN pg_catalog.pg_class l ON l.oid = p.relid
        WHERE c.relkind = 'p' AND l.relkind = 'r' AND l.relreplident <> 'f'
        AND (c.relreplident = 'f' OR NOT {IDENTITY} <@ {_IDENTITY.format(table="l")})
        ORDER BY 1)
"""
