"""What a principal may see, as SQL filters: the same rules as `policy.decide`.

Lists are filtered inside the database, so their cost does not grow with what the
caller may not see. A test compares these filters with `decide` on random grants.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import RawSQL

from catalog.access.grants import rows_for, whole_rows_for
from catalog.access.policy import Principal, Privilege, granting
from catalog.models import Database

ALL = Q()
NONE = Q(pk__in=[])

# Starts from the grants, which are few per principal, not from the tables.
_GRANTED_TABLES = """
SELECT t.id FROM catalog_grant g
JOIN catalog_datasource s ON s.name = g.datasource
JOIN catalog_database d ON d.datasource_id = s.id AND d.name = g.database
JOIN catalog_table t ON t.database_id = d.id AND t.name = g."table"
WHERE g."table" <> '' AND g.privilege = ANY(%s) AND g.columns = '[]'
AND ((g.principal_kind = 'user' AND g.principal_name = %s)
  OR (g.principal_kind = 'group' AND g.principal_name = ANY(%s)))
"""


def visible_tables(
    principal: Principal, privilege: Privilege = Privilege.DISCOVER
) -> Q:
    """Filter for Table rows on which the principal has `privilege`."""
    if (everything := _all_or_nothing(principal)) is not None:
        return everything
    held = [p.value for p in granting(privilege)]
    covering = (
        whole_rows_for(principal)
        .filter(
            privilege__in=held,
            datasource=OuterRef("datasource__name"),
            table="",
        )
        .filter(Q(database="") | Q(database=OuterRef("name")))
    )
    databases = Database.objects.filter(Exists(covering)).values("pk")
    tables = RawSQL(_GRANTED_TABLES, [held, principal.name, sorted(principal.groups)])
    return Q(database__in=databases) | Q(pk__in=tables)


def visible_databases(principal: Principal, *, for_sql: bool = False) -> Q:
    """Filter for Database rows with a grant at, above or below them. `for_sql`: or one
    on some columns of a table in it."""
    if (everything := _all_or_nothing(principal)) is not None:
        return everything
    grants = rows_for(principal) if for_sql else whole_rows_for(principal)
    return Q(
        Exists(
            grants.filter(datasource=OuterRef("datasource__name")).filter(
                Q(database="") | Q(database=OuterRef("name"))
            )
        )
    )


def visible_datasources(principal: Principal) -> Q:
    """Filter for Datasource rows with a grant at or below them."""
    if (everything := _all_or_nothing(principal)) is not None:
        return everything
    return Q(Exists(whole_rows_for(principal).filter(datasource=OuterRef("name"))))


def _all_or_nothing(principal: Principal) -> Q | None:
    if not principal.is_active:
        return NONE
    return ALL if principal.is_admin else None
