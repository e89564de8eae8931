"""Whether a source table is what the plan was made for; columns that it no longer has
leave the lake table with the next re-sync.

The plan forgets them when the re-sync is asked for, the catalogue when it is committed:
until then readers see them. It must not know how rows are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from catalog.discovery.store import VANISHED
from catalog.models import Column, SchemaVersion, Table
from core.errors import InvalidRequest, SluiceError
from ingest.models import TableOnboarding
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    TablePlan,
    plan_from_json,
    plan_to_json,
)


def source_changed(feed: TableOnboarding, plan: TablePlan) -> SluiceError | None:
    """Whether the source table is still what the plan was made for."""
    source = feed.source_table
    if source.status == VANISHED:
        return InvalidRequest(
            f"{plan.source} was dropped at the source after the plan was made",
            code="source_dropped",
            hint="remove its onboarding, or restore the table and discover again",
        )
    if plan.fingerprint and source.schema_fingerprint != plan.fingerprint:
        return InvalidRequest(
            f"{plan.source} was altered at the source after the plan was made; "
            "nothing was written",
            code="source_altered",
            hint="when columns are gone only, ask for a re-sync; else remove this "
            "onboarding and onboard the table again",
        )
    return None


def leave_out(feed: TableOnboarding) -> str:
    """What the plan leaves out from now on, in words; "" when that is nothing."""
    gone = to_leave_out(feed)
    if not gone:
        return ""
    plan = plan_from_json(feed.plan)
    create: CreateTable = plan.step(CreateTable)
    kept = tuple(c for c in create.columns if c.source_name not in gone)
    narrow = dataclasses.replace(create, columns=kept)
    changes: dict[str, Any] = {
        "steps": tuple(narrow if step is create else step for step in plan.steps),
        "fingerprint": feed.source_table.schema_fingerprint,
    }
    feed.plan = plan_to_json(dataclasses.replace(plan, **changes))
    TableOnboarding.objects.filter(pk=feed.pk).update(plan=feed.plan)
    return in_words(gone)


def in_words(gone: Sequence[str]) -> str:
    names = ", ".join(gone)
    return f"gone at the source, so the fresh copy has them no more: {names}"


def to_leave_out(feed: TableOnboarding) -> list[str]:
    """Columns that the next re-sync leaves out; none when nothing is gone, or when
    more than that has changed: the load is refused then, as before."""
    source = feed.source_table
    if feed.plan.get("fingerprint", "") in {"", source.schema_fingerprint}:
        return []  # it is what the plan was made for
    plan = plan_from_json(feed.plan)
    create: CreateTable = plan.step(CreateTable)
    now = dict(source.columns.values_list("source_name", "source_type"))
    gone = [c.source_name for c in create.columns if c.source_name not in now]
    kept = tuple(c for c in create.columns if c.source_name in now)
    is_same = all(now[c.source_name] == c.source_type for c in kept)
    is_there = bool(kept) and source.status != VANISHED
    return gone if is_same and is_there and not _needs(plan, gone) else []


def _needs(plan: TablePlan, gone: list[str]) -> bool:
    create: CreateTable = plan.step(CreateTable)
    apply: ApplyChanges | None = plan.step(ApplyChanges)
    needed = {*create.record_key, *create.partition_by, apply.cursor if apply else ""}
    return not needed.isdisjoint(gone)


def show_columns(feed: TableOnboarding) -> None:
    """The catalogue shows the columns that the table has since its load."""
    create: CreateTable = plan_from_json(feed.plan).step(CreateTable)
    names = [c.name for c in create.columns]
    assert feed.lake_table is not None
    with transaction.atomic():
        table = Table.objects.select_for_update().get(pk=feed.lake_table.pk)
        former = Column.objects.filter(table=table).exclude(name__in=names)
        if not former.exists():
            return
        former.delete()
        # engines read the table anew when they see another version
        table.schema_version += 1
        table.save(update_fields=["schema_version"])
        SchemaVersion.objects.create(
            table=table,
            version=table.schema_version,
            columns=[dataclasses.asdict(c) for c in create.columns],
        )
