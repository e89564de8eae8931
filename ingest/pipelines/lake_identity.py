"""What is pinned of a lake table and may still change: its number of buckets.

The lake's commits say it; plan and catalog rows only repeat it. It must not know jobs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from django.db import transaction

from catalog.models import Table
from ingest.jobs.kinds import spec_by_plan
from ingest.lake.hudi.identity import TableIdentity, identity_for
from ingest.models import Pipeline
from ingest.planning.plan import CreateTable, Proposal, plan_from_json, plan_to_json


def planned_identity(pipeline: Pipeline) -> TableIdentity:
    """What this table's writers are told to agree on."""
    return identity_for(spec_by_plan(pipeline))


def set_buckets(pipeline: Pipeline, count: int, *, why: str) -> bool:
    """Plan, catalog row and its identity together; False when they say so already."""
    table = pipeline.lake_table
    if table is None or planned_identity(pipeline).buckets == count:
        return False
    plan = plan_from_json(pipeline.plan)
    create: CreateTable = plan.step(CreateTable)
    resized = msgspec.structs.replace(create, buckets=count)
    steps = tuple(resized if step is create else step for step in plan.steps)
    proposals = dict(plan.proposals) | {"buckets": Proposal(count, why)}
    changes: dict[str, Any] = {"steps": steps, "proposals": proposals}
    with transaction.atomic():
        pipeline.plan = plan_to_json(dataclasses.replace(plan, **changes))
        Pipeline.objects.filter(pk=pipeline.pk).update(plan=pipeline.plan)
        Table.objects.filter(pk=table.pk).update(
            buckets=count, identity=planned_identity(pipeline).to_data()
        )
    return True
