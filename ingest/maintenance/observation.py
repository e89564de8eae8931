"""One look at a lake table: its files, its timeline, its fences, and the facts that are
drawn from them. Starts no Spark, stores and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings
from django.db.models.functions import Now

from catalog.models import Table
from core.jobs import ACTIVE
from core.models import Job, Lease
from ingest.contract.job import REPAIR
from ingest.jobs.leases import SERVICE, WRITE, lease_name
from ingest.lake.commits import read_properties, read_timeline
from ingest.lake.fence import fence_path, foreign_token
from ingest.lake.hudi.identity import TableIdentity, property_drift
from ingest.lake.hudi.layout import CompactionPlan, Layout
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.layout import (
    metadata_partitions,
    read_begun_restore,
    read_compaction_plan,
    read_layout,
)
from ingest.lake.place import place_at
from ingest.maintenance.facts import (
    LakeFacts,
    PlanFacts,
    TakenLock,
    in_buckets,
    read_facts,
    restoring,
)


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a table's files. plans: of its pending compactions, by request."""

    timeline: Timeline
    layout: Layout
    plans: Mapping[str, CompactionPlan]
    facts: LakeFacts


def facts_of(table: Table, *, now: datetime) -> LakeFacts:
    """A fresh look at the files, without storing it."""
    return look_into(table, now=now).facts


def look_into(table: Table, *, now: datetime) -> Observation:
    """The same, and what the facts were drawn from."""
    base = place_at(table.path)
    timeline = read_timeline(base)
    plans = {
        instant.asked: read_compaction_plan(table.path, instant.asked)
        for instant in timeline.pending_compactions
    }
    layout = read_layout(table.path, timeline)
    drawn = read_facts(
        timeline,
        layout,
        now=now,
        held=_held(table.pk),
        plans={
            asked: PlanFacts(len(plan.groups), plan.log_bytes, plan.is_readable)
            for asked, plan in plans.items()
        },
    )
    # its rows lie in the new number of buckets before the catalog says so
    buckets = 0 if _is_resizing(table.pk) else table.buckets or 0
    drawn = in_buckets(drawn, layout, buckets)
    properties = read_properties(base)
    facts = replace(
        restoring(drawn, read_begun_restore(table.path, timeline)),
        foreign_index=metadata_partitions(base),
        is_gone=properties is None and bool(table.last_commit_instant),
        altered=_altered(table, properties),
        taken=tuple(_taken(table.pk)),
    )
    return Observation(timeline, layout, plans, facts)


def _altered(table: Table, properties: Mapping[str, str] | None) -> tuple[str, ...]:
    if properties is None or not table.identity:
        return ()
    return property_drift(properties, TableIdentity.from_data(table.identity))


def _taken(table_id: int) -> Iterator[TakenLock]:
    names = {lease_name(table_id, scope): scope for scope in (WRITE, SERVICE)}
    tokens = dict(Lease.objects.filter(name__in=names).values_list("name", "token"))
    for name, scope in names.items():
        ours = tokens.get(name, 0)
        path = fence_path(settings.SLUICE_LAKE_URI, table_id, scope)
        # a claim that was undone left the next token there
        if found := foreign_token(path, upto=ours + 1):
            yield TakenLock(scope, found, ours)


def _is_resizing(table_id: int) -> bool:
    return Job.objects.filter(
        kind=REPAIR,
        subject_id=str(table_id),
        state__in=ACTIVE,
        payload__repair__action="resize",
    ).exists()


def _held(table_id: int) -> frozenset[str]:
    names = {lease_name(table_id, scope): scope for scope in (WRITE, SERVICE)}
    held = Lease.objects.filter(name__in=names, expires_at__gt=Now()).exclude(owner="")
    return frozenset(names[name] for name in held.values_list("name", flat=True))
