"""The lake's tables in order, by pattern, page by page: the SQL of GetTables.

Ordered by two tables at once, a plain query would sort the whole lake for each page.
So it walks: databases in order, in each the tables in order, until the page is full.
A pattern that only knows the middle of names, and few of them, has the trigram index.
"""

from __future__ import annotations

import re

from django.db import connection

from catalog.access.policy import Principal
from catalog.access.scope import HELD, holder
from catalog.like import for_sql, is_everything
from catalog.names import LAKE

# With more matches than so many, the walk meets enough of them soon.
FEW = 2_000
Place = tuple[str, str]
Row = tuple[int, str, str, str]

# ~<~ compares bytes, whatever the collation: the order of `queryable_in_order`.
_WALK = """SELECT t.id, d.name AS database, t.name FROM (
    SELECT d.id, d.name FROM catalog_database d
    JOIN catalog_datasource s ON s.id = d.datasource_id
    WHERE s.name = 'lake' AND {databases} AND {whole} ORDER BY d.name USING ~<~) d
  CROSS JOIN LATERAL (SELECT t.id, t.name FROM catalog_table t
    WHERE t.database_id = d.id AND t.is_queryable AND t.path <> '' AND {names}
    AND {rest} ORDER BY t.name USING ~<~ LIMIT %(limit)s) t
  ORDER BY d.name USING ~<~, t.name USING ~<~ LIMIT %(limit)s"""
_REST = """t.name ~>~ CASE WHEN d.name = %(after_database)s THEN %(after_table)s::text
      ELSE '' END"""
_SINGLE = """SELECT t.id, d.name AS database, t.name FROM single
  JOIN catalog_table t ON t.id = single.id
  JOIN catalog_database d ON d.id = t.database_id
  JOIN catalog_datasource s ON s.id = d.datasource_id
  WHERE s.name = 'lake' AND t.is_queryable AND t.path <> '' AND {databases} AND {names}
  AND {beyond} AND t.database_id NOT IN (SELECT id FROM whole)"""
_GATHER = """SELECT t.id, d.name AS database, t.name FROM named t
  JOIN catalog_database d ON d.id = t.database_id
  JOIN catalog_datasource s ON s.id = d.datasource_id
  WHERE s.name = 'lake' AND {databases} AND {beyond} AND {whole}
  AND NOT (SELECT yes FROM is_common)
  ORDER BY d.name USING ~<~, t.name USING ~<~ LIMIT %(limit)s"""
_NAMED = """named AS MATERIALIZED (SELECT t.id, t.database_id, t.name
  FROM catalog_table t WHERE upper(t.name) LIKE upper(%(names)s)
  AND t.name LIKE %(names)s AND t.is_queryable AND t.path <> '' LIMIT %(few)s),
is_common AS MATERIALIZED (SELECT count(*) = %(few)s AS yes FROM named)"""
_BEYOND = """(d.name ~>~ %(after_database)s
  OR d.name = %(after_database)s AND t.name ~>~ %(after_table)s)"""
_COMMENTED = """SELECT found.id, database, found.name, t.comment
  FROM found JOIN catalog_table t ON t.id = found.id
  ORDER BY database USING ~<~, found.name USING ~<~"""
# Three letters in a row make a trigram; a beginning is found by order already.
_MIDDLE = re.compile(r"^[%_].*?[^%_\\]{3}")


def matching_tables(
    principal: Principal,
    patterns: tuple[str | None, ...],
    limit: int,
    after: Place | None,
) -> list[Row]:
    """(id, database, name, comment) of visible queryable tables. One statement."""
    if not principal.is_active:
        return []
    databases, names = (_sql(pattern) for pattern in patterns)
    params = holder(principal, LAKE, for_sql=True) | {
        "limit": limit,
        "databases": databases,
        "names": names,
        "few": FEW,
        "after_database": after[0] if after else "",
        "after_table": after[1] if after else "",
    }
    with connection.cursor() as cursor:
        cursor.execute(_statement(databases, names, after, principal), params)
        return list(cursor.fetchall())


def _statement(
    databases: str, names: str, after: Place | None, principal: Principal
) -> str:
    from_there = "d.name ~>=~ %(after_database)s" if after else "true"
    whole = "true" if principal.is_admin else "d.id IN (SELECT id FROM whole)"
    texts = {
        "databases": f"d.name LIKE %(databases)s AND {from_there}"
        if databases
        else from_there,
        "names": "t.name LIKE %(names)s" if names else "true",
        "rest": _REST if after else "true",
        "beyond": _BEYOND if after else "true",
        "whole": whole,
    }
    is_middle = _MIDDLE.match(names) is not None
    if is_middle:
        texts["whole"] += " AND (SELECT yes FROM is_common)"
    found = _WALK.format(**texts)
    if is_middle:
        texts["whole"] = whole
        found = f"({_GATHER.format(**texts)}) UNION ALL ({found})"
    if not principal.is_admin:
        found = (
            f"SELECT * FROM (({found}) UNION ALL ({_SINGLE.format(**texts)})) both_ways"
            " ORDER BY database USING ~<~, name USING ~<~ LIMIT %(limit)s"
        )
    opening = "WITH" if principal.is_admin else f"{HELD},"
    named = f"{_NAMED}, " if is_middle else ""
    return f"{opening} {named}found AS MATERIALIZED ({found}) {_COMMENTED}"


def _sql(pattern: str | None) -> str:
    """For LIKE, in lower case as lake names are; "" = everything."""
    if pattern is None or is_everything(pattern):
        return ""
    return for_sql(pattern.lower())
