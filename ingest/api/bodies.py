"""What ingestion looks like in JSON. Add members, never rename or remove one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from catalog.api.bodies import Body, instant, number
from catalog.api.bodies import job_body as core_job_body
from catalog.names import LAKE, join_name
from core.clock import SystemClock
from core.models import Job, JobLog
from ingest.alerts.stalled import stalled_since
from ingest.hudi.timeline import at_of
from ingest.lake.commits import Commit
from ingest.models import Onboarding, Pipeline
from ingest.models.states import FAILED, NEEDS_RESYNC, PAUSED, REMOVING, RETIRED
from ingest.pipelines.drafting import Draft
from ingest.pipelines.removal import RemovalPreview
from ingest.planning.plan import plan_to_json
from ingest.policies.policy import Effective
from ingest.policies.schedule import (
    ONCE,
    Schedule,
    every_seconds_of,
    in_words,
    next_runs,
    parse_schedule,
    schedule_to_json,
)

NEXT_RUNS = 3
STOPPED = frozenset({PAUSED, FAILED, NEEDS_RESYNC, REMOVING, RETIRED})
LOADED_ONCE: Body = {
    "schedule": None,
    "schedule_in_words": ONCE,
    "next_runs": [],
    "schedule_from": None,
}


def job_body(job: Job) -> Body:
    return core_job_body(job) | {
        "subject_id": job.subject_id,
        "progress_at": instant(job.progress_at),
        "moved_at": instant(job.moved_at),
        "cancel_requested": job.cancel_requested,
        "links": {
            "self": f"/api/v1/jobs/{job.pk}",
            "logs": f"/api/v1/jobs/{job.pk}/logs",
            "events": f"/api/v1/jobs/{job.pk}/events",
        },
    }


def job_detail_body(job: Job, *, may_read_rows: bool) -> Body:
    """With its moves; two statements. Keys of rows are for who may read them."""
    facts = (job.report or {}).get("facts")
    if facts and "keys" in facts and not may_read_rows:
        facts = {**facts, "keys": None}
    return job_body(job) | {
        "stalled_since": instant(stalled_since(job, SystemClock().now())),
        "lane": job.lane,
        "max_attempts": job.max_attempts,
        "not_before": instant(job.not_before),
        "facts": facts,
        "warnings": list((job.report or {}).get("warnings") or []),
        "events": [
            {
                "at": instant(event.at),
                "event": event.event,
                "before": event.before,
                "after": event.after,
                "actor": event.actor,
                "reason": event.reason,
            }
            for event in job.events.all()
        ],
    }


def log_body(line: JobLog) -> Body:
    return {
        "id": line.pk,
        "at": instant(line.at),
        "level": line.level,
        "message": line.message,
    }


def onboarding_body(row: Onboarding) -> Body:
    return {
        "id": str(row.pk),
        "datasource": row.datasource.name,
        "request": row.request,
        "waits_for": row.request.get("waits"),
        **schedule_body(parse_schedule(row.request.get("schedule"))),
        "requested_by": row.requested_by,
        "created_at": instant(row.created_at),
        "approved_at": instant(row.approved_at),
        "approved_by": row.approved_by,
        "links": {"self": f"/api/v1/onboardings/{row.pk}"},
    }


def schedule_body(schedule: Schedule | None, *, due: datetime | None = None) -> Body:
    """The schedule, in words, and its next runs; `due` is the first when known."""
    runs = [due] if due else []
    after = due or SystemClock().now()
    runs += next_runs(schedule, after, NEXT_RUNS - len(runs))
    return {
        "schedule": schedule_to_json(schedule),
        "schedule_in_words": in_words(schedule),
        "next_runs": [instant(run) for run in runs],
    }


def pipeline_schedule_body(pipeline: Pipeline, policy: Effective) -> Body:
    """None of it runs while the table is stopped; the schedule stays."""
    body = capture_schedule_body(pipeline.capture, policy, due=pipeline.due_at)
    return body | {"next_runs": []} if pipeline.state in STOPPED else body


def capture_schedule_body(
    capture: str, policy: Effective, *, due: datetime | None = None
) -> Body:
    if capture == "snapshot":
        return LOADED_ONCE
    origin = policy.origins["schedule"]
    return schedule_body(policy.schedule, due=due) | {"schedule_from": origin}


def policy_body(given: Mapping[str, object], policy: Effective) -> Body:
    """What one level gives, and what counts there with where it is from."""
    return {"given": dict(given), "effective": policy.to_json()}


def pipeline_body(pipeline: Pipeline, policy: Effective) -> Body:
    lake = pipeline.lake_table
    name = join_name(pipeline.plan.get("database", ""), pipeline.plan.get("name", ""))
    return {
        "id": pipeline.pk,
        "source": pipeline.plan.get("source", ""),
        "source_table": pipeline.source_table_id,
        "table": lake.pk if lake else None,
        "name": f"{LAKE}.{name}",
        "capture": pipeline.capture,
        "every_seconds": every_seconds_of(policy.schedule),
        **pipeline_schedule_body(pipeline, policy),
        "status": pipeline.state,
        "status_reason": pipeline.status_reason,
        "position": pipeline.position or None,
        "consistency": pipeline.consistency or None,
        "plan": pipeline.plan,
    }


def draft_body(draft: Draft) -> Body:
    """The answer to a dry run: nothing of it is stored."""
    return {
        "id": None,
        "datasource": draft.source.name,
        "dry_run": True,
        "skipped": list(draft.skipped),
        "uncarried": [asdict(one) for one in draft.uncarried],
        "tables": [
            {
                "capture": each.capture,
                "source": each.plan.source,
                "source_table": each.table.pk,
                "name": f"{LAKE}.{join_name(each.plan.database, each.plan.name)}",
                "status": "PROPOSED",
                "status_reason": each.plan.blocked,
                **capture_schedule_body(each.capture, each.policy),
                "plan": plan_to_json(each.plan),
            }
            for each in draft.planned
        ],
    }


def commit_body(commit: Commit) -> Body:
    position = commit.position
    return {
        "instant": commit.instant.asked,
        "completed": commit.instant.completed,
        "at": instant(at_of(commit.instant.completed)),
        "action": commit.instant.action,
        "operation": commit.operation,
        "rows": number(commit.rows_written),
        "bytes": number(commit.bytes_written),
        "position": position.end if position else None,
        "from": position.start if position else None,
        "epoch": number(position.epoch_to) if position else None,
        "epoch_from": number(position.epoch_from) if position else None,
        "run": position.run if position else None,
    }


def removal_body(preview: RemovalPreview) -> Body:
    return {
        "table": preview.table,
        "data": "drop" if preview.drop_data else "keep",
        "files": preview.files,
        "bytes": number(preview.bytes),
        "will": list(preview.will),
        "dry_run": True,
    }
