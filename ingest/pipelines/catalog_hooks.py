"""What ingestion adds to the catalog's own words about tables and datasources."""

from __future__ import annotations

import functools

from django.db import transaction
from django.db.models import (
    CharField,
    Expression,
    ExpressionWrapper,
    JSONField,
    OuterRef,
    Q,
    Subquery,
    UUIDField,
    Value,
)
from django.db.models.functions import Concat, JSONObject

from catalog.models import Datasource
from ingest.models import Onboarding, Pipeline
from ingest.models.states import RETIRED
from ingest.pipelines.followers import release_before_deletion
from ingest.pipelines.recording import forget_source


def onboarding_id() -> Expression:
    """On Table rows: the request that carries it, seen from either end."""
    pipelines = Pipeline.objects.exclude(state=RETIRED).filter(
        Q(lake_table=OuterRef("pk")) | Q(source_table=OuterRef("pk"))
    )
    newest = pipelines.order_by("-id").values("onboarding_id")[:1]
    field = UUIDField(null=True)
    return ExpressionWrapper(Subquery(newest), output_field=field)


def lake_table() -> Expression:
    """On Table rows of a source: "database.table" in the lake."""
    pipelines = Pipeline.objects.exclude(state=RETIRED).filter(
        source_table=OuterRef("pk"), lake_table__isnull=False
    )
    name = Concat(
        "lake_table__database__name",
        Value("."),
        "lake_table__name",
        output_field=CharField(),
    )
    newest = pipelines.order_by("-id").values(name=name)[:1]
    field = CharField(null=True)
    return ExpressionWrapper(Subquery(newest), output_field=field)


def sync() -> Expression:
    """On Table rows of a source: state and reason of the sync it feeds, and its table
    in the lake, once there is one."""
    pipelines = Pipeline.objects.exclude(state=RETIRED).filter(
        source_table=OuterRef("pk")
    )
    said = JSONObject(state="state", reason="status_reason", lake_table="lake_table_id")
    newest = pipelines.order_by("-id").values(said=said)[:1]
    field = JSONField(null=True)
    return ExpressionWrapper(Subquery(newest), output_field=field)


def what_needs(source: Datasource) -> list[str]:
    """Tables that are still on their way from this datasource."""
    pipelines = Pipeline.objects.exclude(state=RETIRED).filter(
        source_table__database__datasource=source
    )
    named = pipelines.select_related("source_table__database__datasource")
    return [str(pipeline.source_table) for pipeline in named.order_by("id")[:200]]


def forget_retired(source: Datasource) -> None:
    """Rows of what is no longer carried; lake tables that were kept stay."""
    release_before_deletion(source)
    Pipeline.objects.filter(
        state=RETIRED, source_table__database__datasource=source
    ).delete()
    Onboarding.objects.filter(datasource=source, tables=None).delete()
    # one that stays is read for nothing: no table names it
    transaction.on_commit(functools.partial(forget_source, source.pk))
