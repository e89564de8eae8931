"""Which sources and databases a principal may see, as SQL filters: the same rules as
`policy.decide`. Of tables `scope` says it.

Lists are filtered inside the database, so their cost does not grow with what the
caller may not see. A test compares these filters with `decide` on random grants.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from catalog.access.grants import rows_for, whole_rows_for
from catalog.access.policy import Principal

ALL = Q()
NONE = Q(pk__in=[])


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


def visible_datasources(principal: Principal, *, for_sql: bool = False) -> Q:
    """Filter for Datasource rows with a grant at or below them. `for_sql`: or one on
    some columns of a table in them."""
    if (everything := _all_or_nothing(principal)) is not None:
        return everything
    grants = rows_for(principal) if for_sql else whole_rows_for(principal)
    return Q(Exists(grants.filter(datasource=OuterRef("name"))))


def _all_or_nothing(principal: Principal) -> Q | None:
    if not principal.is_active:
        return NONE
    return ALL if principal.is_admin else None
