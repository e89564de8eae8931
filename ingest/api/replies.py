"""Replies of ingestion: onboardings, jobs, commits, policies. Add members, never rename
or remove one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework import serializers as s

from catalog.api.replies import Job
from catalog.api.reply import SENTENCES, Count, Instant, OrNull, Reply, Texts, kept, of
from catalog.names import LAKE, join_name
from core.models import Job as JobRow
from core.sentences import with_sentences, without_origins
from ingest.alerts.stalled import stalled_since
from ingest.api.timetables import Scheduled, Timetable, timetable_of_capture
from ingest.contract.segments import OPS
from ingest.lake.commits import Commit as CommitRow
from ingest.lake.hudi.timeline import at_of
from ingest.models import Pipeline
from ingest.models.states import PROPOSED
from ingest.pipelines.drafting import Draft as DraftRow
from ingest.pipelines.drafting import Planned
from ingest.pipelines.onboarding import pipeline_row
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import every_seconds_of


# Of something with a `timetable`.
class HasSchedule(Reply):
    schedule = s.JSONField(allow_null=True, source="timetable.schedule")
    schedule_in_words = s.CharField(source="timetable.in_words")
    next_runs = s.ListField(child=Instant(), source="timetable.next_runs")


# What a request about several tables came to for one of them.
class OutcomeForOne(Reply):
    table = s.IntegerField(source="table.pk")
    name = of(s.CharField(), lambda row: str(row.table))
    job = of(
        s.CharField(allow_null=True),
        lambda row: None if row.job is None else str(row.job.pk),
    )
    error = s.DictField(allow_null=True, help_text="code, message and hint")

    @staticmethod
    def error_of(row: Any) -> Mapping[str, str] | None:
        error = row.error
        if error is None:
            return None
        return {"code": error.code, "message": error.message, "hint": error.hint}


class Links(Reply):
    self = s.CharField()


class JobLinks(Links):
    logs = s.CharField()
    events = s.CharField()


class SyncingJob(Job):
    subject_id = s.CharField()
    progress_at = Instant(allow_null=True, help_text="last sign of life")
    moved_at = Instant(
        allow_null=True, help_text="when something last came of it, over all attempts"
    )
    cancel_requested = s.CharField(help_text="what a cancellation asked for, or empty")
    links = JobLinks()

    @staticmethod
    def links_of(job: JobRow) -> Mapping[str, str]:
        at = f"/api/v1/jobs/{job.pk}"
        return {"self": at, "logs": f"{at}/logs", "events": f"{at}/events"}


class JobMove(Reply):
    at = Instant()
    event = s.CharField()
    before = s.CharField()
    after = s.CharField()
    actor = s.CharField()
    reason = s.CharField()


# With its moves; two statements.
class JobDetail(SyncingJob):
    stalled_since = of(
        Instant(
            allow_null=True,
            help_text="set while a running job stalls for longer than"
            " SLUICE_STALLED_SECONDS; reason says what it waits for",
        ),
        lambda job: stalled_since(job, timezone.now()),
    )
    lane = s.CharField()
    max_attempts = s.IntegerField()
    not_before = Instant(allow_null=True)
    facts = s.DictField(allow_null=True)
    warnings = of(
        Texts(),
        lambda job: list(with_sentences(job.report or {}).get("warnings") or []),
    )
    events = of(JobMove(many=True), lambda job: job.events.all())

    @staticmethod
    def facts_of(job: JobRow) -> Mapping[str, Any] | None:
        facts: Mapping[str, Any] | None = with_sentences(job.report or {}).get("facts")
        if not facts:
            return facts
        told = {k: kept(v) if k in SENTENCES else v for k, v in facts.items()}
        if seen := told.get("source_fingerprint"):
            told["source_fingerprint"] = without_origins(seen)
        return told


class LogLine(Reply):
    id = s.IntegerField()
    at = Instant()
    level = s.CharField()
    message = s.CharField()


class LogPage(Reply):
    items = LogLine(many=True)
    older = s.CharField(allow_null=True)
    newer = s.CharField(allow_null=True)
    next_page_token = s.CharField(allow_null=True)
    is_finished = s.BooleanField()


class Onboarding(HasSchedule):
    id = s.UUIDField(source="row.pk")
    datasource = s.CharField(source="row.datasource.name")
    request = s.DictField(source="row.request")
    waits_for = of(
        s.CharField(allow_null=True),
        lambda shown: with_sentences(shown.row.request).get("waits"),
    )
    requested_by = s.CharField(source="row.requested_by")
    created_at = Instant(source="row.created_at")
    approved_at = Instant(allow_null=True, source="row.approved_at")
    approved_by = s.CharField(source="row.approved_by")
    links = of(Links(), lambda shown: {"self": f"/api/v1/onboardings/{shown.row.pk}"})


# Of a table of a plan, whether it is stored or not.
class PlannedTable(HasSchedule):
    source: Any = of(s.CharField(), lambda shown: shown.row.plan.get("source", ""))
    source_table = s.IntegerField(source="row.source_table_id")
    name = s.CharField()
    capture = s.CharField(source="row.capture")
    status = s.CharField(source="row.state")
    status_reason = s.CharField(source="row.status_reason")
    schedule_from = s.CharField(allow_null=True, source="timetable.origin")
    plan = of(s.DictField(), lambda shown: without_origins(shown.row.plan))

    @staticmethod
    def name_of(shown: Scheduled) -> str | None:
        plan = shown.row.plan
        if "database" not in plan:
            return None
        return f"{LAKE}.{join_name(plan['database'], plan.get('name', ''))}"


@dataclass(frozen=True, slots=True)
class ShownPipeline:
    row: Pipeline
    policy: Effective
    timetable: Timetable


# Of a pipeline.
class OnboardedTable(PlannedTable):
    id = s.IntegerField(source="row.pk")
    source_table = s.IntegerField(source="row.source_table_id")
    name = s.CharField(allow_null=True, help_text="null: not for this caller to see")
    table = s.IntegerField(allow_null=True, source="row.lake_table_id")
    every_seconds = of(
        s.IntegerField(allow_null=True),
        lambda shown: every_seconds_of(shown.policy.schedule),
    )
    position = OrNull(source="row.position")
    consistency = OrNull(source="row.consistency")


class NotApproved(Reply):
    source: Any = s.CharField()
    reason = s.CharField()


@dataclass(frozen=True, slots=True)
class ShownOnboarding(Scheduled):
    """With a page of its tables, and its open jobs."""

    counts: Mapping[str, int] = field(default_factory=dict)
    tables: list[ShownPipeline] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    next_page_token: str | None = None


class OnboardingDetail(Onboarding):
    counts = s.DictField(child=s.IntegerField())
    tables = OnboardedTable(many=True)
    jobs = SyncingJob(many=True)
    not_approved = NotApproved(many=True)
    next_page_token = s.CharField(allow_null=True)

    @staticmethod
    def not_approved_of(shown: ShownOnboarding) -> list[Mapping[str, str]]:
        return [
            {"source": row.plan.get("source", ""), "reason": row.status_reason}
            for row in (each.row for each in shown.tables)
            if row.state == PROPOSED and row.status_reason
        ]


class Uncarried(Reply):
    """A table that a pattern means and that cannot be synced."""

    name = s.CharField()
    reason = s.CharField()
    way_out = s.CharField()


# A plan has some 9 kB.
MOST_DRAFTED = 1_000


class Draft(Reply):
    """The answer to `"dry_run": true`; nothing of it is stored. Of very many tables
    those come first that need a decision."""

    id = of(s.UUIDField(allow_null=True), lambda draft: None)
    datasource = s.CharField(source="source.name")
    dry_run = of(s.BooleanField(), lambda draft: True)
    skipped = Texts()
    uncarried = Uncarried(many=True)
    tables = PlannedTable(many=True)
    left_off = of(
        s.IntegerField(help_text="planned, too, and not among `tables`"),
        lambda draft: max(0, len(draft.planned) - MOST_DRAFTED),
    )

    @staticmethod
    def tables_of(draft: DraftRow) -> list[Scheduled]:
        tables = draft.planned
        if len(tables) > MOST_DRAFTED:
            blocked_first = sorted(tables, key=lambda each: not each.plan.blocked)
            tables = tuple(blocked_first[:MOST_DRAFTED])
        # thousands of tables have few policies, and what cron means takes long
        found = {_scheduled_by(each): each for each in tables}
        by = {k: timetable_of_capture(v.capture, v.policy) for k, v in found.items()}
        return [
            Scheduled(pipeline_row(each), by[_scheduled_by(each)]) for each in tables
        ]


def _scheduled_by(each: Planned) -> tuple[object, ...]:
    return each.capture, each.policy.schedule, each.policy.origins["schedule"]


class TableSwitched(Reply):
    table = s.IntegerField()
    status = s.CharField()
    status_reason = s.CharField()
    jobs = SyncingJob(many=True)
    links = s.DictField()


class TableCapture(Reply):
    table = s.IntegerField()
    name = s.CharField()
    state = s.CharField()
    reason = s.CharField()
    applied_position = s.CharField(allow_null=True)
    lag_seconds = s.FloatField(allow_null=True, help_text="how old what readers see is")
    changes_per_second = s.FloatField(help_text="applied lately")
    waiting = Count(help_text="epochs with changes of it that are not applied")
    lossy = s.DictField(
        child=s.IntegerField(),
        help_text="column → how many values had no form in the lake: NULL there",
    )


class CaptureWaiting(Reply):
    epochs = Count()
    bytes = Count(help_text="of all epochs that are kept")
    oldest_at = Instant(
        allow_null=True, help_text="when the first change that waits was committed"
    )


class SourceLog(Reply):
    kept_bytes = Count(
        help_text="that the source keeps for its follower", source="kept"
    )
    safe_bytes = Count(
        allow_null=True,
        source="safe",
        help_text="that may come before it stops keeping them; null: without a limit",
    )
    status = s.CharField()


class Capture(Reply):
    desired = s.CharField(help_text="RUNNING or STOPPED")
    observed = s.CharField(
        help_text="stopped, starting, waiting, following, failed, or silent: no host"
        " of followers reports it"
    )
    since = Instant(allow_null=True)
    reason = s.CharField()
    code = s.CharField()
    hint = s.CharField()
    position = s.CharField(allow_null=True, help_text="up to where it is durable here")
    lag_seconds = s.FloatField(allow_null=True, help_text="of the reader")
    lag_bytes = Count(allow_null=True, help_text="of its log, not durable here yet")
    rows_per_second = s.FloatField()
    heartbeat_at = Instant(allow_null=True)
    waiting = CaptureWaiting()
    source_log = SourceLog()
    tables = TableCapture(many=True)


class TablesResumed(Reply):
    resumed = s.IntegerField()
    left = s.IntegerField(
        help_text="that could not be resumed: their pages say why; or beyond the first"
        " 200: ask again"
    )


class Removal(Reply):
    """The answer to `"dry_run": true`."""

    table = s.CharField()
    data: Any = of(
        s.CharField(), lambda preview: "drop" if preview.drop_data else "keep"
    )
    files = s.IntegerField()
    bytes = Count(allow_null=True)
    will = Texts()
    dry_run = of(s.BooleanField(), lambda preview: True)


class CommitBase(Reply):
    @staticmethod
    def at_of(commit: CommitRow) -> datetime | None:
        return at_of(commit.instant.completed)


# a class statement cannot name a member `from`
Commit: Any = type(
    "Commit",
    (CommitBase,),
    {
        "instant": s.CharField(source="instant.asked"),
        "completed": s.CharField(source="instant.completed"),
        "at": Instant(allow_null=True),
        "action": s.CharField(source="instant.action"),
        "operation": s.CharField(),
        "rows": Count(allow_null=True, source="rows_written"),
        "bytes": Count(allow_null=True, source="bytes_written"),
        "position": s.CharField(allow_null=True, source="position.end"),
        "from": s.CharField(allow_null=True, source="position.start"),
        "epoch": Count(allow_null=True, source="position.epoch_to"),
        "epoch_from": Count(allow_null=True, source="position.epoch_from"),
        "run": s.CharField(allow_null=True, source="position.run"),
    },
)


class CommitPage(Reply):
    items = Commit(many=True)
    next_page_token = s.CharField(allow_null=True)


class SampleColumn(Reply):
    name = s.CharField()
    type = s.CharField()


class Sample(Reply):
    columns = SampleColumn(many=True)
    rows = s.ListField(child=s.ListField(child=s.JSONField(allow_null=True)))


class Change(Reply):
    op: Any = s.ChoiceField(
        choices=OPS,
        help_text="moved: the row of the delete just before, under its new key",
    )
    key = s.DictField()
    row = s.DictField(
        allow_null=True, help_text="without the columns of `unchanged`; null when gone"
    )
    before = s.DictField(
        allow_null=True,
        help_text="of a delete: the key, and the rest if the log has it",
    )
    unchanged = Texts(help_text="columns that the log did not send: as they were")
    position = s.CharField(help_text="where its epoch ends in the source's log")
    committed_at = Instant(
        allow_null=True, help_text="of the newest transaction of its epoch"
    )
    epoch = Count()
    after = s.CharField(help_text="goes on behind this change")


class Changes(Reply):
    items = Change(many=True)
    after = s.CharField(help_text="goes on behind these")
    is_last = s.BooleanField(help_text="nothing more was there")


# What one level gives, and what counts there.
class Policy(HasSchedule):
    given = s.DictField()
    effective = of(
        s.DictField(child=s.DictField()), lambda shown: shown["policy"].to_json()
    )
    schedule_from = s.CharField(allow_null=True, source="timetable.origin")


class LevelPolicy(Policy):
    datasource = s.CharField()
    database = s.CharField(allow_null=True)


class TablePolicy(Policy):
    table = s.IntegerField()
    name = s.CharField()
    due_at = Instant(allow_null=True)
