"""What is pinned of a lake table and may still change: its number of buckets.

The lake's commits say it; plan and catalog rows only repeat it. It must not know jobs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db import transaction

from catalog.models import Table
from ingest.hudi.identity import TableIdentity, identity_for
from ingest.jobs.specs import table_spec
from ingest.models import TableOnboarding
from ingest.planning.plan import CreateTable, Proposal, plan_from_json, plan_to_json


def planned_identity(feed: TableOnboarding) -> TableIdentity:
    """What this table's writers are told to agree on."""
    assert feed.lake_table is not None
    plan = plan_from_json(feed.plan)
    return identity_for(table_spec(plan, feed.lake_table, feed.source_table))


def set_buckets(feed: TableOnboarding, count: int, *, why: str) -> bool:
    """Plan, catalog row and its identity together; False when they say so already."""
    table = feed.lake_table
    if table is None or planned_identity(feed).buckets == count:
        return False
    plan = plan_from_json(feed.plan)
    create: CreateTable = plan.step(CreateTable)
    resized = dataclasses.replace(create, buckets=count)
    steps = tuple(resized if step is create else step for step in plan.steps)
    proposals = dict(plan.proposals) | {"buckets": Proposal(count, why)}
    changes: dict[str, Any] = {"steps": steps, "proposals": proposals}
    with transaction.atomic():
        feed.plan = plan_to_json(dataclasses.replace(plan, **changes))
        TableOnboarding.objects.filter(pk=feed.pk).update(plan=feed.plan)
        Table.objects.filter(pk=table.pk).update(
            buckets=count, identity=planned_identity(feed).to_data()
        )
    return True
