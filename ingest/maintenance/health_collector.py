"""Looking at lake tables in the background: facts → score → plan, one small row each.

After a commit a table is due soon, else every few minutes. Pages and REST read the
rows; nobody starts Spark for them. What a plan asks for is queued here, once.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from catalog.models import Table
from core import outbox
from core.errors import SluiceError
from core.jobs import TERMINAL
from core.json_values import iso
from core.models import Job
from core.outbox import NewEvent
from core.sentences import Sentence, joined
from ingest.contract.job import COMPACT, REPAIR
from ingest.lake.hudi.budget import choose, credit_after, first_credit
from ingest.lake.hudi.timeline import instant_of
from ingest.lake.place import place_at
from ingest.lake.upkeep import read_written
from ingest.maintenance.compact_job import start_compaction
from ingest.maintenance.facts import LakeFacts
from ingest.maintenance.merging import MergeCost, weigh
from ingest.maintenance.observation import Observation, look_into
from ingest.maintenance.plan import Step, is_due_at_rest, plan_maintenance
from ingest.maintenance.score import (
    BROKEN_CODES,
    LOG_LOST,
    STUCK_CODES,
    Health,
    score,
    stuck_in,
)
from ingest.maintenance.verification_schedule import remedy_of
from ingest.maintenance.write_amplification import Written, add, written_from
from ingest.models import Pipeline, TableHealth
from ingest.models.states import REMOVING
from ingest.pipelines import compaction_plans
from ingest.pipelines.policies.maintenance import MaintenancePolicy
from ingest.pipelines.policies.policy import Effective, effective
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.table_status import standing_of, why_lost
from ingest.pipelines.transitions import (
    is_any_due,
    note_change,
    pipeline_of,
    require_pipeline,
    rows_due,
)

log = logging.getLogger(__name__)

EVERY = timedelta(minutes=5)
# nothing is wrong and nothing is planned: only time can change that
EVERY_QUIET = timedelta(hours=1)
AFTER_TROUBLE = timedelta(minutes=1)
PAGE = 20
PASS_SECONDS = 0.2
TREND_STEP = timedelta(minutes=15)
TREND_KEPT = 96
COMMITS_READ = 100
ACTOR = "policy"


def look_at_due() -> int:
    """Look at what is due, for a short while at most; how many tables."""
    if not is_any_due():
        return 0
    until = time.monotonic() + PASS_SECONDS
    looked = 0
    while looked < PAGE and time.monotonic() < until:
        with transaction.atomic():
            row = (
                rows_due()
                .select_for_update(skip_locked=True, of=("self",))
                .select_related("table__database__datasource")
                .order_by("due_at")
                .first()
            )
            if row is None:
                break
            look_at(row)
        looked += 1
    return looked


def _words_of(error: Exception) -> str:
    if isinstance(error, SluiceError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return Sentence("its files cannot be read: %(why)s", why=error.strerror)
    return Sentence(
        "its files are not what Sluice expects; the scheduler's log says more"
    )


def look_at(row: TableHealth) -> None:
    """Read, judge, plan and store; trouble with the lake is said and tried again."""
    now = timezone.now()
    table = row.table
    try:
        seen = look_into(table, now=now)
        facts = seen.facts
        pipeline = pipeline_of(table.pk)
        policy = _policy(pipeline)
        written = _written(row, seen, policy.keeping, now=now)
        facts = replace(facts, merge=_merge(seen, policy.keeping, written, now=now))
    except Exception as error:
        # whatever lies in one table's folder
        # must not stop the looks at others, nor the scheduler that calls this
        log.warning("cannot look at %s", table, exc_info=error)
        text = _words_of(error)
        TableHealth.objects.filter(pk=row.pk).update(
            problem=text, due_at=now + AFTER_TROUBLE
        )
        return
    standing = _standing(pipeline)
    differs = remedy_of(pipeline) if pipeline else ""
    health = score(facts, policy.keeping, differs=differs, standing=standing)
    steps = plan_maintenance(facts, policy.keeping, now, quiet=policy.quiet)
    steps = tuple(_put_off(step, table.pk, now) for step in steps)
    issues = [issue.to_json() for issue in health.issues]
    TableHealth.objects.filter(pk=row.pk).update(
        score=health.score,
        facts=facts.to_json() | {"written": written.to_json()},
        issues=issues,
        plan=[step.to_json() for step in steps],
        trend=_trend(row.trend, facts, health.score, table.caught_up_at),
        problem="",
        base_bytes=facts.base_bytes,
        log_bytes=facts.log_bytes,
        old_bytes=facts.old_bytes,
        pending=len(facts.pending_compactions),
        stuck=sum(issue["code"] in STUCK_CODES for issue in issues),
        collected_at=now,
        due_at=_next(pipeline, now, _waits(facts, policy.keeping, steps, health)),
    )
    if pipeline is not None and pipeline.state != REMOVING:
        _report(row, health.score, issues)
        if table.is_queryable:
            _start(table, steps)


def _report(before: TableHealth, score: int, issues: list[dict[str, Any]]) -> None:
    """Append the change. What stands still or is broken is reported with each look: an
    alert about it that somebody closed opens again."""
    broken = [one for one in issues if one["code"] in STUCK_CODES | BROKEN_CODES]
    if broken or (before.score, before.issues) != (score, issues):
        data = {"score": score, "issues": broken}
        outbox.append(NewEvent("health.changed", "table", str(before.table_id), data))


def look_now(table: Table) -> None:
    """Somebody asked. One look that began since then is enough: however many ask, a
    table is looked at twice at most. InvalidRequest when nobody carries it."""
    require_pipeline(table)
    asked = timezone.now()
    note_change(table.pk)
    with transaction.atomic():
        rows = TableHealth.objects.select_for_update(of=("self",))
        row = rows.select_related("table__database__datasource").get(table=table)
        if row.collected_at is None or row.collected_at < asked:
            look_at(row)


def _merge(
    seen: Observation, policy: MaintenancePolicy, written: Written, *, now: datetime
) -> MergeCost:
    """What the log files cost readers, and what is worth a compaction now."""
    groups, credit = seen.layout.groups, written.credit or 0
    age = timedelta(seconds=policy.compact_log_age_seconds)
    return weigh(
        groups,
        choose(groups, credit=credit, old_before=instant_of(now - age)),
        credit=credit,
        allowed=policy.max_write_amplification,
        measured=written.amplification_of(f"{now:%Y-%m-%d}"),
    )


def _written(
    row: TableHealth, seen: Observation, policy: MaintenancePolicy, *, now: datetime
) -> Written:
    """What was known, and what was written since."""
    before = written_from(row.facts.get("written", {}))
    base, timeline = place_at(row.table.path), seen.timeline
    counted, wrote = read_written(base, timeline, before.counted, most=COMMITS_READ)
    table_bytes = seen.facts.base_bytes + seen.facts.log_bytes
    found = add(before, wrote, table_bytes=table_bytes, now=now)
    amplification = policy.max_write_amplification
    if before.credit is None:
        credit = first_credit(seen.layout.groups, amplification=amplification)
    else:
        credit = credit_after(
            before.credit,
            [(one.action, one.bytes) for one in wrote],
            amplification=amplification,
            most=table_bytes,
        )
    return replace(found, counted=counted, credit=credit)


def _standing(pipeline: Pipeline | None) -> tuple[str, str]:
    if pipeline is None:
        return "", ""
    if (why := why_lost(pipeline)) is not None:
        return LOG_LOST, why
    standing = standing_of(pipeline.state, pipeline.failures)
    return standing, pipeline.status_reason


def _policy(pipeline: Pipeline | None) -> Effective:
    return effective([]) if pipeline is None else policy_of(pipeline)


def _next(pipeline: Pipeline | None, now: datetime, wait: timedelta) -> datetime | None:
    """A table that nobody carries any more changes no more."""
    return None if pipeline is None else now + wait


def _waits(
    facts: LakeFacts, policy: MaintenancePolicy, steps: tuple[Step, ...], health: Health
) -> timedelta:
    """How long until the next look; something pending is looked at when it begins to
    count as stuck."""
    due = facts.merge is not None and facts.merge.due_groups > 0
    soon = due and is_due_at_rest(facts, policy)
    usual = EVERY if steps or health.issues or soon else EVERY_QUIET
    seconds = [
        stuck_in(p, policy.stuck_after_seconds) for p in facts.pending if not p.is_held
    ]
    return min([usual, *(timedelta(seconds=s) for s in seconds if s > 0)])


def _put_off(step: Step, table_id: int, now: datetime) -> Step:
    """What failed waits, lest it fails all day; what somebody cancelled waits, too."""
    if step.name == "execute":
        found = compaction_plans.waiting(table_id, step.instants)
    elif step.name == "schedule":
        found = compaction_plans.last_stopped(table_id, now)
    else:
        return step
    if found is None:
        return step
    until, why = found
    then = Sentence("the last attempt failed, so it waits")
    if why.startswith(compaction_plans.CANCELLED):
        then = Sentence("the last attempt was cancelled, so it waits")
    return replace(step, name="wait", reason=joined([step.reason, then]), at=iso(until))


def _start(table: Table, steps: tuple[Step, ...]) -> None:
    """What is planned on the timeline is started by the rows that mirror it; here
    only what is not planned yet. One that waits or runs already is enough."""
    if not any(step.name == "schedule" for step in steps):
        return
    busy = Job.objects.filter(
        ~Q(state__in=sorted(TERMINAL)),
        kind__in=[COMPACT, REPAIR],
        subject_id=str(table.pk),
    )
    if not busy.exists():
        start_compaction(table, actor=ACTOR, within_budget=True)


def _trend(
    before: list[Any], facts: LakeFacts, points: int, caught_up_at: datetime | None
) -> list[Any]:
    now = datetime.fromisoformat(facts.at)
    if before and now - datetime.fromisoformat(before[-1]["at"]) < TREND_STEP:
        return before
    lag = now - caught_up_at if caught_up_at else None
    point = {
        "at": facts.at,
        "score": points,
        "base_bytes": facts.base_bytes,
        "log_bytes": facts.log_bytes,
        "old_bytes": facts.old_bytes,
        "groups": facts.groups,
        "lag": max(0.0, round(lag.total_seconds(), 1)) if lag is not None else None,
    }
    return [*before, point][-TREND_KEPT:]
