"""What ingest adds to the catalog's own look-ups, without the catalog knowing it.

Registered once by `IngestConfig.ready`; each fact is a part of the catalog's SQL.
"""

from __future__ import annotations

from django.db.models import CharField, Expression, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Concat

from catalog.extensions import registered
from catalog.models import Datasource
from ingest.models import Onboarding, TableOnboarding
from ingest.states import RETIRED

MOST_BLOCKERS = 50


def register() -> None:
    registered.annotations["onboarding"] = onboarding_of_table
    registered.annotations["carried_as"] = lake_name_of_source_table
    registered.blockers.append(living_tables)
    registered.releases.append(forget_retired)


def onboarding_of_table() -> Expression:
    """Id of the request that carries a table, seen from either end; else NULL."""
    return Subquery(
        TableOnboarding.objects.filter(
            Q(lake_table=OuterRef("pk")) | Q(source_table=OuterRef("pk"))
        )
        .exclude(state=RETIRED)
        .order_by("-pk")
        .values("onboarding_id")[:1]
    )


def lake_name_of_source_table() -> Expression:
    """ "database.table" in the lake of what a source table feeds; else NULL."""
    return Subquery(
        TableOnboarding.objects.filter(
            source_table=OuterRef("pk"), lake_table__isnull=False
        )
        .exclude(state=RETIRED)
        .order_by("-pk")
        .annotate(
            place=Concat(
                F("lake_table__database__name"),
                Value("."),
                F("lake_table__name"),
                output_field=CharField(),
            )
        )
        .values("place")[:1]
    )


def living_tables(datasource: Datasource) -> list[str]:
    """Tables of a source that are still being carried."""
    rows = (
        TableOnboarding.objects.filter(source_table__database__datasource=datasource)
        .exclude(state=RETIRED)
        .select_related("source_table__database")
        .order_by("pk")
    )
    return [
        f"{row.source_table.database.name}.{row.source_table.name} [{row.state}]"
        for row in rows[:MOST_BLOCKERS]
    ]


def forget_retired(datasource: Datasource) -> None:
    """Finished onboardings of a source that is going; its lake tables stay."""
    TableOnboarding.objects.filter(
        source_table__database__datasource=datasource, state=RETIRED
    ).delete()
    Onboarding.objects.filter(datasource=datasource, tables__isnull=True).delete()
