"""Which sources shall be followed, and whether something of their tables changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from ingest.models import Pipeline, Policy, SourceFollower
from ingest.pipelines.followers import (
    WITHOUT_PLAN,
    abandoned_followers,
    followers_of_sources,
)
from ingest.pipelines.log_tables import awaited_tables
from ingest.planning.facts import LOG


@dataclass(frozen=True, slots=True)
class Wanted:
    """is_over: nothing of it is followed any more, what was made there has to go."""

    row: SourceFollower
    is_over: bool = False


def wanted_sources() -> dict[int, Wanted]:
    """By id of the datasource, which comes with its row."""
    followed = {
        row.datasource_id: Wanted(row)
        for row in followers_of_sources()
        if row.desired == SourceFollower.RUNNING
    }
    over = {
        row.datasource_id: Wanted(row, is_over=True) for row in abandoned_followers()
    }
    return over | followed


def table_marks(sources: Collection[int]) -> dict[int, Any]:
    """By id of the datasource what changes when its `followed_tables` do: a fraction
    of their cost, for each second."""
    columns = (
        "pk", "state", "load_name", "bound", "drift", "status_reason",
        "lake_table__schema_version", "policy",
    )  # fmt: skip
    of = "source_table__database__datasource"
    rows = Pipeline.objects.filter(**{f"{of}__in": list(sources)}, capture=LOG)
    awaited = sorted(awaited_tables())
    found: dict[int, list[Any]] = {source: [awaited] for source in sources}
    given = Policy.objects.filter(datasource__in=list(sources)).order_by("pk")
    for source, policy in given.values_list("datasource", "given"):
        found[source].append(policy)
    # one that joins a table moves it in no other way
    shown = rows.exclude(state__in=WITHOUT_PLAN).annotate(shard_count=Count("shards"))
    for source, *mark in shown.order_by("pk").values_list(of, *columns, "shard_count"):
        found[source].append(mark)
    return found
