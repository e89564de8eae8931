"""What ingestion adds to the catalog's own words about tables and datasources."""

from __future__ import annotations

import functools
from typing import Any

from django.db import transaction
from django.db.models import (
    CharField,
    Expression,
    ExpressionWrapper,
    Field,
    JSONField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    UUIDField,
    Value,
)
from django.db.models.functions import Coalesce, Concat, JSONObject

from catalog.models import Datasource
from ingest.models import Onboarding, Pipeline, Shard
from ingest.models.states import RETIRED
from ingest.pipelines.followers import release_before_deletion
from ingest.pipelines.recording import forget_source


def onboarding_id() -> Expression:
    """On Table rows: the request that carries it, seen from either end."""
    return _from_either_end("onboarding_id", UUIDField(null=True))


def capture() -> Expression:
    """On Table rows: how it is synced, seen from either end."""
    return _from_either_end("capture", CharField(null=True))


def _from_either_end(column: str, field: Field[Any, Any]) -> Expression:
    """A column of the newest pipeline that a table is an end of."""
    pipelines = Pipeline.objects.exclude(state=RETIRED).filter(
        Q(lake_table=OuterRef("pk")) | Q(source_table=OuterRef("pk"))
    )
    newest = pipelines.order_by("-id").values(column)[:1]
    shards = _of_shards().values(f"pipeline__{column}")[:1]
    found = Coalesce(Subquery(newest), Subquery(shards))
    return ExpressionWrapper(found, output_field=field)


def lake_table() -> Expression:
    """On Table rows of a source: "database.table" in the lake."""
    field = CharField(null=True)
    found = Coalesce(
        Subquery(_of_source(lake_table__isnull=False).values(name=_lake_name())[:1]),
        Subquery(
            _of_shards(pipeline__lake_table__isnull=False).values(
                name=_lake_name("pipeline__")
            )[:1]
        ),
    )
    return ExpressionWrapper(found, output_field=field)


def _of_source(**more: Any) -> QuerySet[Pipeline]:
    """The newest one of a table of a source."""
    rows = Pipeline.objects.exclude(state=RETIRED)
    return rows.filter(source_table=OuterRef("pk"), **more).order_by("-id")


def _of_shards(**more: Any) -> QuerySet[Shard]:
    """The newest one that it is a shard of."""
    rows = Shard.objects.exclude(pipeline__state=RETIRED)
    return rows.filter(source_table=OuterRef("pk"), **more).order_by("-id")


def _lake_name(at: str = "") -> Concat:
    return Concat(
        f"{at}lake_table__database__name",
        Value("."),
        f"{at}lake_table__name",
        output_field=CharField(),
    )


def sync() -> Expression:
    """On Table rows of a source: state and reason of the sync it feeds, and its table
    in the lake, once there is one."""
    found = Coalesce(
        Subquery(_of_source().values(said=_said())[:1]),
        Subquery(_of_shards().values(said=_said("pipeline__"))[:1]),
    )
    return ExpressionWrapper(found, output_field=JSONField(null=True))


def _said(at: str = "") -> JSONObject:
    return JSONObject(
        state=f"{at}state",
        reason=f"{at}status_reason",
        lake_table=f"{at}lake_table_id",
    )


def what_needs(source: Datasource) -> list[str]:
    """Tables that are still on their way from this datasource."""
    pipelines = Pipeline.objects.exclude(state=RETIRED).filter(
        source_table__database__datasource=source
    )
    # of ten thousand their plans are not read
    of = "source_table__database__name", "source_table__name"
    named = pipelines.order_by("id").values_list(*of)
    return [f"{source.name}.{database}.{name}" for database, name in named]


def forget_retired(source: Datasource) -> None:
    """Rows of what is no longer carried; lake tables that were kept stay."""
    release_before_deletion(source)
    Pipeline.objects.filter(
        state=RETIRED, source_table__database__datasource=source
    ).delete()
    Onboarding.objects.filter(datasource=source, tables=None).delete()
    # one that stays is read for nothing: no table names it
    transaction.on_commit(functools.partial(forget_source, source.pk))
