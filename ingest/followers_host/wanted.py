"""Which sources shall be followed, and whether something of their tables changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef

from catalog.models import Datasource
from ingest.models import Pipeline, SourceFollower
from ingest.models.states import DISCOVERED, DRAFT, PROPOSED, RETIRED
from ingest.planning.facts import LOG

# One that is removed is followed until its end is in the log of the lake.
_WITHOUT_PLAN = (DRAFT, DISCOVERED, PROPOSED, RETIRED)
_OF = "source_table__database__datasource"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A source whose log shall be read. desired_at: when that was last requested."""

    datasource: Datasource
    desired_at: datetime


def wanted_sources() -> dict[int, Wanted]:
    """By id of the datasource. Each source with log tables has a row of its follower
    afterwards."""
    tables = Pipeline.objects.filter(capture=LOG).exclude(state__in=_WITHOUT_PLAN)
    has_tables = Exists(tables.filter(**{_OF: OuterRef("pk")}))
    sources = {row.pk: row for row in Datasource.objects.filter(has_tables)}
    followers = {row.datasource_id: row for row in _followers(sources)}
    if lacking := sources.keys() - followers.keys():
        made = [SourceFollower(datasource_id=pk) for pk in sorted(lacking)]
        SourceFollower.objects.bulk_create(made, ignore_conflicts=True)
        followers = {row.datasource_id: row for row in _followers(sources)}
    return {
        pk: Wanted(source, followers[pk].desired_at)
        for pk, source in sources.items()
        if pk in followers and followers[pk].desired == SourceFollower.RUNNING
    }


def _followers(sources: Collection[int]) -> list[SourceFollower]:
    rows = SourceFollower.objects.filter(datasource__in=list(sources))
    return list(rows.only("datasource_id", "desired", "desired_at"))


def table_marks(sources: Collection[int]) -> dict[int, Any]:
    """By id of the datasource what changes when its `followed_tables` do: a fraction
    of their cost, for each second."""
    columns = (
        "pk", "state", "load_name", "bound", "drift", "status_reason",
        "lake_table__schema_version",
    )  # fmt: skip
    rows = Pipeline.objects.filter(**{f"{_OF}__in": list(sources)}, capture=LOG)
    found: dict[int, list[Any]] = {source: [] for source in sources}
    shown = rows.exclude(state__in=_WITHOUT_PLAN).order_by("pk")
    for source, *mark in shown.values_list(_OF, *columns):
        found[source].append(mark)
    return found
