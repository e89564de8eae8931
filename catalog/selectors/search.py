"""Ranked search over names, columns and comments, cheap however large the catalog is.

One statement looks from the best kind of match to the weakest and stops as soon as the
page is full; each kind has an index of its own. Says what matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from catalog.access.policy import Principal
from catalog.access.scope import Reach, Scope, scope_of
from catalog.like import literally
from catalog.selectors.tables import TableFilter

MOST = 1_000
SHORTEST_FUZZY = 3
MOST_WORDS = 4
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Hit:
    """A table that was found. field: name, database, column or comment; the text of a
    column's comment begins with the column's name.
    """

    table_id: int
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Hits:
    """Best first. Nothing is said about how many there are in all."""

    items: list[Hit]
    has_more: bool


def search_tables(
    principal: Principal, wanted: TableFilter, *, limit: int, offset: int = 0
) -> Hits:
    """Visible tables that match `wanted.q` (and its filters), best first.

    Words of `q` all have to occur; `database.prefix` names a place. Below three letters
    only beginnings of names count. At most MOST are found. Two statements, one for
    administrators.
    """
    scope = scope_of(principal, wanted.datasource)
    # no name holds a NUL, and PostgreSQL takes none
    wanted = replace(wanted, q=wanted.q.replace("\x00", " ").strip()[:LONGEST])
    words = wanted.q.split()[:MOST_WORDS]
    if scope.reach is Reach.NOTHING or not words or offset >= MOST:
        return Hits([], has_more=False)
    enough = min(offset + limit, MOST) + 1
    sql, params = _statement(scope, wanted, words)
    with connection.cursor() as cursor:
        cursor.execute(sql, params | {"enough": enough})
        rows = cursor.fetchall()
    found: dict[int, Hit] = {}
    for table_id, field, text in rows:
        found.setdefault(table_id, Hit(table_id, field, text))
    page = list(found.values())[offset : min(offset + limit, MOST)]
    return Hits(page, has_more=len(rows) == enough and offset + limit < MOST)


def _statement(
    scope: Scope, wanted: TableFilter, words: list[str]
) -> tuple[str, dict[str, Any]]:
    q = wanted.q
    params: dict[str, Any] = {
        "q": q,
        "prefix": literally(q) + "%",
        "fuzzy": max(words, key=len).lower(),
        "databases": list(scope.databases),
        "tables": list(scope.tables),
        "kind": wanted.kind,
        "status": wanted.status,
        "datasource": wanted.datasource,
        "database": wanted.database,
        "tag": wanted.tag,
        "owner": wanted.owner,
    }
    params |= {f"word{n}": f"%{literally(word)}%" for n, word in enumerate(words)}
    place, dot, rest = q.rpartition(".")
    stages: tuple[str, ...] = ALL
    if dot:
        params |= {"place": place.rpartition(".")[2], "rest": literally(rest) + "%"}
        stages = PLACED
    elif len(q) < SHORTEST_FUZZY:
        stages = SHORT
    filters = [text for name, text in FILTERS.items() if getattr(wanted, name)]
    sql = statement(stages, words=words, filters=filters, reach=scope.reach)
    return sql, params


IN_SCOPE = (
    "(t.database_id = ANY(%(databases)s::bigint[]) OR t.id = ANY(%(tables)s::bigint[]))"
)
FILTERS = {
    "kind": "t.kind = %(kind)s",
    "status": "t.status = %(status)s",
    "tag": "t.tags @> ARRAY[%(tag)s]::varchar[]",
    "owner": "t.owner = %(owner)s",
    "datasource": """t.database_id IN (SELECT d.id FROM catalog_database d
      JOIN catalog_datasource s ON s.id = d.datasource_id
      WHERE s.name = %(datasource)s)""",
    "database": """t.database_id IN (SELECT d.id FROM catalog_database d
      WHERE d.name = %(database)s)""",
}
# Rows of a small scope are read once; every stage then looks at these only.
_MINE = """WITH mine AS MATERIALIZED (
  SELECT t.id, t.name, t.comment, t.database_id, t.kind, t.status, t.tags, t.owner
  FROM catalog_table t
  WHERE t.database_id = ANY(%(databases)s::bigint[])
  UNION ALL
  SELECT t.id, t.name, t.comment, t.database_id, t.kind, t.status, t.tags, t.owner
  FROM catalog_table t
  WHERE t.id = ANY(%(tables)s::bigint[])
  AND NOT t.database_id = ANY(%(databases)s::bigint[]))
"""
# Ids alone, read when a stage asks for them.
_SIGHT = """WITH sight AS MATERIALIZED (
  SELECT c.id FROM catalog_table c WHERE c.database_id = ANY(%(databases)s::bigint[])
  UNION ALL SELECT unnest(%(tables)s::bigint[]))
"""
_EXACT = """SELECT t.id, 'name', t.name FROM {tables} t
  WHERE upper(t.name) = upper(%(q)s) AND {seen} ORDER BY t.id LIMIT %(enough)s"""
_PREFIX = """SELECT t.id, 'name', t.name FROM {tables} t
  WHERE upper(t.name) LIKE upper(%(prefix)s) AND upper(t.name) <> upper(%(q)s)
  AND {seen} ORDER BY upper(t.name) USING ~<~, t.id LIMIT %(enough)s"""
_PLACE = """SELECT t.id, 'name', t.name FROM catalog_database d
  JOIN LATERAL (SELECT t.id, t.name FROM {tables} t
    WHERE t.database_id = d.id AND t.name LIKE %(rest)s AND {seen}
    ORDER BY t.name USING ~<~ LIMIT %(enough)s) t ON true
  WHERE upper(d.name) = upper(%(place)s) LIMIT %(enough)s"""
_PLACE_ANY_CASE = """SELECT t.id, 'name', t.name FROM catalog_database d
  JOIN {tables} t ON t.database_id = d.id
  WHERE upper(d.name) = upper(%(place)s) AND upper(t.name) LIKE upper(%(rest)s)
  AND t.name NOT LIKE %(rest)s AND {seen} ORDER BY t.name, t.id LIMIT %(enough)s"""
_DATABASE = """SELECT t.id, 'database', d.name FROM (
    SELECT id, name FROM catalog_database WHERE upper(name) LIKE upper(%(prefix)s)
    AND {whole} ORDER BY length(name), name, id LIMIT 20) d
  JOIN LATERAL (SELECT t.id, t.name FROM {tables} t WHERE t.database_id = d.id
    AND {filters} ORDER BY t.name LIMIT %(enough)s) t ON true LIMIT %(enough)s"""
_DATABASE_OF_SINGLE = """SELECT t.id, 'database', d.name FROM {tables} t
  JOIN catalog_database d ON d.id = t.database_id
  WHERE t.id = ANY(%(tables)s::bigint[]) AND upper(d.name) LIKE upper(%(prefix)s)
  AND NOT d.id = ANY(%(databases)s::bigint[]) AND {filters}
  ORDER BY d.name, t.name LIMIT %(enough)s"""
# The first candidates in no order, then the shortest names: sorting all would read all.
_CONTAINS = """SELECT id, 'name', name FROM (SELECT t.id, t.name FROM {tables} t
    WHERE {in_name} AND upper(t.name) NOT LIKE upper(%(prefix)s) AND {seen}
    LIMIT 200) t
  ORDER BY length(name), name, id LIMIT %(enough)s"""
_COLUMN = """SELECT id, 'column', text FROM (
  SELECT DISTINCT ON (id) id, text, grade FROM (
    SELECT c.id, term.text, term.grade FROM (
      SELECT text, min(CASE WHEN lower(text) = lower(%(q)s) THEN 0
          WHEN text ILIKE %(prefix)s THEN 1 ELSE 2 END) AS grade
      FROM catalog_searchterm WHERE "of" = 'column' AND {in_text}
      GROUP BY text ORDER BY grade, length(text), text LIMIT 20) term
    JOIN LATERAL ({with_column}) c ON true LIMIT %(enough)s) found
  ORDER BY id, grade) found ORDER BY grade, id"""
# Column names alone come from an index, so that only tables in sight are fetched.
WITH_COLUMN = """SELECT t.id FROM catalog_column c JOIN {tables} t ON t.id = c.table_id
      WHERE c.name = term.text AND {seen} AND NOT ({in_name})
      ORDER BY c.table_id LIMIT %(enough)s"""
WITH_COLUMN_IN_SIGHT = """SELECT t.id FROM (SELECT c.table_id FROM catalog_column c
        WHERE c.name = term.text AND c.table_id IN (SELECT id FROM sight)
        OFFSET 0) c
      JOIN {tables} t ON t.id = c.table_id WHERE {seen} AND NOT ({in_name})
      LIMIT %(enough)s"""
# A word may be in most comments, and the next one in none of them: only the first ones
# that hold the words an index knows are looked at.
_COMMENT = """SELECT t.id, 'comment', left(t.comment, 300) FROM (
    SELECT * FROM catalog_table t WHERE t.comment <> '' AND {indexed} LIMIT 20000) t
  WHERE {in_comment} AND NOT ({in_name}) AND {seen} LIMIT %(enough)s"""
_COMMENT_OF_MINE = """SELECT t.id, 'comment', left(t.comment, 300) FROM mine t
  WHERE {in_comment} AND NOT ({in_name}) AND {seen} LIMIT %(enough)s"""
_COLUMN_COMMENT = """SELECT c.id, 'comment', c.name || ': ' || left(c.comment, 300)
  FROM ({column_comments}) c LIMIT %(enough)s"""
_COLUMN_COMMENTS = """SELECT t.id, c.name, c.comment FROM (
    SELECT c.table_id, c.name, c.comment FROM catalog_column c
    WHERE c.comment <> '' AND {indexed_remark} LIMIT 20000) c
  JOIN catalog_table t ON t.id = c.table_id
  WHERE {in_remark} AND {seen} AND NOT ({in_name}) LIMIT %(enough)s"""
_COLUMN_COMMENTS_OF_MINE = """SELECT t.id, c.name, c.comment FROM mine t
  JOIN LATERAL (SELECT c.name, c.comment FROM catalog_column c
    WHERE c.table_id = t.id OFFSET 0) c ON true
  WHERE c.comment <> '' AND {in_remark} AND {seen} AND NOT ({in_name})
  LIMIT %(enough)s"""
_LIKE_NAME = """SELECT t.id, 'name', t.name FROM (
    SELECT text, max(similarity(text, %(fuzzy)s)) AS score FROM catalog_searchterm
    WHERE "of" = 'word' AND text %% %(fuzzy)s AND text NOT LIKE %(word0)s
    GROUP BY text ORDER BY score DESC, text LIMIT 3) term
  JOIN LATERAL (SELECT t.id, t.name FROM {tables} t
    WHERE upper(t.name) LIKE '%%' || upper(term.text) || '%%' AND {seen}
    LIMIT %(enough)s) t ON true LIMIT %(enough)s"""
_LIKE_COLUMN = """SELECT c.id, 'column', term.text FROM (
    SELECT text, max(similarity(text, %(fuzzy)s)) AS score FROM catalog_searchterm
    WHERE "of" = 'column' AND text %% %(fuzzy)s AND text NOT ILIKE %(word0)s
    GROUP BY text ORDER BY score DESC, text LIMIT 5) term
  JOIN LATERAL ({with_column}) c ON true LIMIT %(enough)s"""
_LIKE_COMMENT = """SELECT c.id, 'comment', c.text FROM (
    SELECT text, max(similarity(text, %(fuzzy)s)) AS score FROM catalog_searchterm
    WHERE "of" = 'comment' AND text %% %(fuzzy)s AND text NOT LIKE %(word0)s
    GROUP BY text ORDER BY score DESC, text LIMIT 2) term
  JOIN LATERAL ((SELECT t.id, left(t.comment, 300) AS text FROM {tables} t
      WHERE t.comment <> '' AND upper(t.comment) LIKE '%%' || upper(term.text) || '%%'
      AND {seen} LIMIT %(enough)s)
    UNION ALL (SELECT c.id, c.name || ': ' || left(c.comment, 300)
      FROM ({column_comments_like}) c)) c ON true LIMIT %(enough)s"""
_LIKE_TERM = "upper(c.comment) LIKE '%%' || upper(term.text) || '%%'"

# A trigram index knows words from so many letters on.
SHORTEST_INDEXED = 3

SHORT = (_EXACT, _PREFIX)
PLACED = (_PLACE, _PLACE_ANY_CASE, _EXACT, _PREFIX, _CONTAINS)
ALL = (
    *(_EXACT, _PREFIX, _DATABASE, _DATABASE_OF_SINGLE, _CONTAINS, _COLUMN, _COMMENT),
    *(_COLUMN_COMMENT, _LIKE_NAME, _LIKE_COLUMN, _LIKE_COMMENT),
)


def statement(
    stages: Sequence[str],
    *,
    words: Sequence[str],
    filters: Sequence[str],
    reach: Reach,
) -> str:
    """(id, field, text) of the best matches, at most `enough`, best stage first."""
    is_bounded = reach in (Reach.SIGHT, Reach.WIDE)
    is_mine = reach is Reach.MINE
    only = " AND ".join(filters) or "true"
    every = range(len(words))
    indexed = [n for n in every if len(words[n]) >= SHORTEST_INDEXED]
    texts = {
        "tables": "mine" if is_mine else "catalog_table",
        "filters": only,
        "seen": f"{only} AND {IN_SCOPE}" if is_bounded else only,
        "whole": "true" if reach is Reach.ALL else "id = ANY(%(databases)s::bigint[])",
        "in_name": _all_of("upper(t.name) LIKE upper({})", every),
        "in_comment": _all_of("upper(t.comment) LIKE upper({})", every),
        "indexed": _all_of("upper(t.comment) LIKE upper({})", indexed),
        "in_text": _all_of("text ILIKE {}", every),
    }
    column = WITH_COLUMN_IN_SIGHT if reach is Reach.SIGHT else WITH_COLUMN
    texts["with_column"] = column.format(**texts)
    comments = _COLUMN_COMMENTS_OF_MINE if is_mine else _COLUMN_COMMENTS
    texts["column_comments"] = comments.format(
        in_remark=_all_of("upper(c.comment) LIKE upper({})", every),
        indexed_remark=_all_of("upper(c.comment) LIKE upper({})", indexed),
        **texts,
    )
    texts["column_comments_like"] = comments.format(
        in_remark=_LIKE_TERM, indexed_remark=_LIKE_TERM, **texts
    )
    left_out = {_DATABASE_OF_SINGLE} if reach is Reach.ALL else set()
    if not indexed:
        left_out |= {_COMMENT, _COLUMN_COMMENT}
    kept = [stage for stage in stages if stage not in left_out]
    if is_mine:
        kept = [_COMMENT_OF_MINE if s is _COMMENT else s for s in kept]
    parts = " UNION ALL ".join(f"({stage.format(**texts)})" for stage in kept)
    opening = {Reach.MINE: _MINE, Reach.SIGHT: _SIGHT}.get(reach, "")
    return f"{opening}SELECT * FROM ({parts}) found LIMIT %(enough)s"


def _all_of(condition: str, words: Sequence[int]) -> str:
    return " AND ".join(condition.format(f"%(word{n})s") for n in words) or "true"
