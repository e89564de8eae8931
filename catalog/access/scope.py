"""What a principal may discover, as ids: read once, then constants in further SQL.

Constants let the planner see how much a filter leaves, which a subquery does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connection
from django.db.models import BigAutoField, Lookup, Q
from django.db.models.sql.compiler import SQLCompiler

from catalog.access.policy import Principal, Privilege, granting

# Up to how many tables a scope is read whole, or at least its ids are.
FEW, MANY = 2_000, 50_000


class Reach(StrEnum):
    """How much of the catalog a scope is: decides how it is searched."""

    NOTHING = "nothing"
    MINE = "few tables"
    SIGHT = "many tables"
    WIDE = "more than that"
    ALL = "everything"


@dataclass(frozen=True, slots=True)
class Scope:
    """databases  ids of databases of which they see all tables
    tables     ids of tables granted one by one
    """

    reach: Reach
    databases: tuple[int, ...] = ()
    tables: tuple[int, ...] = ()


# `whole` databases and `single` tables of a principal, to begin a statement with.
HELD = """
WITH held AS MATERIALIZED (
  SELECT datasource, database, "table" FROM catalog_grant
  WHERE privilege = ANY(%(held)s) AND %(only)s IN ('', datasource)
  AND (columns = '[]' OR %(for_sql)s)
  AND ((principal_kind = 'user' AND principal_name = %(name)s)
    OR (principal_kind = 'group' AND principal_name = ANY(%(groups)s)))
), whole AS MATERIALIZED (
  SELECT DISTINCT d.id FROM held h JOIN catalog_datasource s ON s.name = h.datasource
  JOIN catalog_database d ON d.datasource_id = s.id
    AND (h.database = '' OR d.name = h.database)
  WHERE h."table" = ''
), single AS MATERIALIZED (
  SELECT DISTINCT t.id FROM held h JOIN catalog_datasource s ON s.name = h.datasource
  JOIN catalog_database d ON d.datasource_id = s.id AND d.name = h.database
  JOIN LATERAL (SELECT id FROM catalog_table
    WHERE database_id = d.id AND name = h."table" OFFSET 0) t ON true
  WHERE h."table" <> ''
)
"""
_SCOPE = f"""{HELD}
SELECT ARRAY(SELECT id FROM whole), ARRAY(SELECT id FROM single),
  (SELECT count(*) FROM (SELECT 1 FROM whole w JOIN LATERAL
    (SELECT 1 FROM catalog_table t WHERE t.database_id = w.id LIMIT %(many)s) t
    ON true LIMIT %(many)s) counted)
"""


def scope_of(
    principal: Principal,
    datasource: str = "",
    privilege: Privilege = Privilege.DISCOVER,
    *,
    for_sql: bool = False,
) -> Scope:
    """Of everything or within one datasource; no statement for admins. `for_sql`:
    tables with a grant on some columns, too."""
    if not principal.is_active:
        return Scope(Reach.NOTHING)
    if principal.is_admin:
        return Scope(Reach.ALL)
    with connection.cursor() as cursor:
        held = holder(principal, datasource, privilege, for_sql=for_sql)
        cursor.execute(_SCOPE, held | {"many": MANY})
        databases, tables, size = cursor.fetchone()
    return Scope(_reach(size + len(tables)), tuple(databases), tuple(tables))


def holder(
    principal: Principal,
    datasource: str = "",
    privilege: Privilege = Privilege.DISCOVER,
    *,
    for_sql: bool = False,
) -> dict[str, Any]:
    """Parameters of HELD. `for_sql`: grants on some columns count too."""
    return {
        "only": datasource,
        "held": sorted(granting(privilege)),
        "name": principal.name,
        "groups": sorted(principal.groups),
        "for_sql": for_sql,
    }


@BigAutoField.register_lookup
class AnyOf(Lookup):
    """`id__any_of=[…]`: one parameter however many ids there are."""

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(
        self, compiler: SQLCompiler, connection: Any
    ) -> tuple[str, tuple[Any, ...]]:
        left, params = self.process_lhs(compiler, connection)
        return f"{left} = ANY(%s::bigint[])", (*params, list(self.rhs))


def in_scope(scope: Scope) -> Q:
    """Filter for Table rows."""
    if scope.reach is Reach.ALL:
        return Q()
    if scope.reach is Reach.NOTHING:
        return Q(pk__in=[])
    mine = Q(database__id__any_of=scope.databases)
    return mine | Q(id__any_of=scope.tables)


def _reach(size: int) -> Reach:
    if not size:
        return Reach.NOTHING
    if size <= FEW:
        return Reach.MINE
    return Reach.SIGHT if size < MANY else Reach.WIDE
