"""What a compaction would do now, read from the lake's files. Starts no Spark."""

from __future__ import annotations

from catalog.models import Table
from core.clock import SystemClock
from core.errors import InvalidRequest
from ingest.compactions import Wish, payload_for
from ingest.contract import DriverSpec
from ingest.lake.layout import CompactionPlan
from ingest.maintenance.compacting import Planned, foresee, words_for
from ingest.maintenance.repairs import Preview
from ingest.maintenance.watching import look_into
from ingest.maintenance.wording import counted


def preview_compaction(table: Table, wish: Wish = None) -> Preview:
    """InvalidRequest where a compaction would fail at once: a plan that nobody can
    read, a driver of its own that the table's lock does not allow."""
    driver = payload_for(table, wish).get("driver")
    seen = look_into(table, now=SystemClock().now())
    planned = [_planned(table, asked, plan) for asked, plan in seen.plans.items()]
    groups, facts = seen.layout.groups, seen.facts
    found = foresee(groups, planned)
    lines = list(words_for(found, len(groups)))
    if any(one.is_held for one in facts.pending_compactions):
        lines.insert(0, "A job works on it now: this waits until that has ended")
    lines.append(_where(DriverSpec(**driver) if driver else None))
    lines.append("Readers see the same rows before and after; rounds go on meanwhile")
    return Preview(
        str(table),
        "compact",
        facts.pending_compactions,
        tuple(lines),
        compaction=found,
    )


def _planned(table: Table, asked: str, plan: CompactionPlan) -> Planned:
    if not plan.is_readable:
        raise InvalidRequest(
            f"the request of compaction {asked} of {table} is gone or damaged: it"
            " cannot be executed",
            code="plan_unreadable",
            hint="unschedule it first",
        )
    return Planned(asked, plan.groups, plan.log_files, plan.log_bytes)


def _where(driver: DriverSpec | None) -> str:
    if driver is None:
        return "It runs in the driver that all jobs share"
    cores = counted(driver.cores, "core")
    return f"It runs in a driver of its own with {driver.memory} of memory and {cores}"
