"""Bodies of ingestion in the OpenAPI document; `ingest.api.bodies` makes the real ones.

A test compares the two, field by field.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers as s

from catalog.api.replies import Count, Job


class Scheduled(s.Serializer[Any]):
    schedule = s.JSONField(allow_null=True)
    schedule_in_words = s.CharField()
    next_runs = s.ListField(child=s.DateTimeField())


class Links(s.Serializer[Any]):
    self = s.CharField()


class JobLinks(Links):
    logs = s.CharField()
    events = s.CharField()


class SyncingJob(Job):
    subject_id = s.CharField()
    progress_at = s.DateTimeField(allow_null=True, help_text="last sign of life")
    moved_at = s.DateTimeField(
        allow_null=True, help_text="when something last came of it, over all attempts"
    )
    cancel_requested = s.CharField(help_text="what a cancellation asked for, or empty")
    links = JobLinks()


class JobMove(s.Serializer[Any]):
    at = s.DateTimeField()
    event = s.CharField()
    before = s.CharField()
    after = s.CharField()
    actor = s.CharField()
    reason = s.CharField()


class JobDetail(SyncingJob):
    stalled_since = s.DateTimeField(
        allow_null=True,
        help_text="set while a running job stands still for longer than"
        " SLUICE_STALLED_SECONDS; reason says what it waits for",
    )
    lane = s.CharField()
    max_attempts = s.IntegerField()
    not_before = s.DateTimeField(allow_null=True)
    facts = s.DictField(allow_null=True)
    warnings = s.ListField(child=s.CharField())
    events = JobMove(many=True)


class LogLine(s.Serializer[Any]):
    id = s.IntegerField()
    at = s.DateTimeField()
    level = s.CharField()
    message = s.CharField()


class LogPage(s.Serializer[Any]):
    items = LogLine(many=True)
    older = s.CharField(allow_null=True)
    newer = s.CharField(allow_null=True)
    next_page_token = s.CharField(allow_null=True)
    is_finished = s.BooleanField()


class Onboarding(Scheduled):
    id = s.UUIDField()
    datasource = s.CharField()
    request = s.DictField()
    waits_for = s.CharField(allow_null=True)
    requested_by = s.CharField()
    created_at = s.DateTimeField()
    approved_at = s.DateTimeField(allow_null=True)
    approved_by = s.CharField()
    links = Links()


class PlannedTable(Scheduled):
    source: Any = s.CharField()
    source_table = s.IntegerField()
    name = s.CharField()
    capture = s.CharField()
    status = s.CharField()
    status_reason = s.CharField()
    schedule_from = s.CharField(allow_null=True)
    plan = s.DictField()


class OnboardedTable(PlannedTable):
    id = s.IntegerField()
    table = s.IntegerField(allow_null=True)
    every_seconds = s.IntegerField(allow_null=True)
    position = s.CharField(allow_null=True)
    consistency = s.CharField(allow_null=True)


class NotApproved(s.Serializer[Any]):
    source: Any = s.CharField()
    reason = s.CharField()


class OnboardingDetail(Onboarding):
    counts = s.DictField(child=s.IntegerField())
    tables = OnboardedTable(many=True)
    jobs = SyncingJob(many=True)
    not_approved = NotApproved(many=True)
    next_page_token = s.CharField(allow_null=True)


class Uncarried(s.Serializer[Any]):
    """A table that a pattern means and that cannot be carried."""

    name = s.CharField()
    reason = s.CharField()
    way_out = s.CharField()


class Draft(s.Serializer[Any]):
    """The answer to `"dry_run": true`; nothing of it is stored."""

    id = s.UUIDField(allow_null=True)
    datasource = s.CharField()
    dry_run = s.BooleanField()
    skipped = s.ListField(child=s.CharField())
    uncarried = Uncarried(many=True)
    tables = PlannedTable(many=True)


class TableSwitched(s.Serializer[Any]):
    table = s.IntegerField()
    status = s.CharField()
    status_reason = s.CharField()
    jobs = SyncingJob(many=True)
    links = s.DictField()


class Removal(s.Serializer[Any]):
    """The answer to `"dry_run": true`."""

    table = s.CharField()
    data: Any = s.CharField()
    files = s.IntegerField()
    bytes = Count(allow_null=True)
    will = s.ListField(child=s.CharField())
    dry_run = s.BooleanField()


Commit: Any = inline_serializer(
    name="Commit",
    fields={
        "instant": s.CharField(),
        "completed": s.CharField(),
        "at": s.DateTimeField(allow_null=True),
        "action": s.CharField(),
        "operation": s.CharField(),
        "rows": Count(allow_null=True),
        "bytes": Count(allow_null=True),
        "position": s.CharField(allow_null=True),
        "from": s.CharField(allow_null=True),
        "epoch": Count(allow_null=True),
        "epoch_from": Count(allow_null=True),
        "run": s.CharField(allow_null=True),
    },
    many=True,
)


class CommitPage(s.Serializer[Any]):
    items = Commit
    next_page_token = s.CharField(allow_null=True)


class SampleColumn(s.Serializer[Any]):
    name = s.CharField()
    type = s.CharField()


class Sample(s.Serializer[Any]):
    columns = SampleColumn(many=True)
    rows = s.ListField(child=s.ListField(child=s.JSONField(allow_null=True)))


class Policy(Scheduled):
    given = s.DictField()
    effective = s.DictField(child=s.DictField())
    schedule_from = s.CharField(allow_null=True)


class LevelPolicy(Policy):
    datasource = s.CharField()
    database = s.CharField(allow_null=True)


class TablePolicy(Policy):
    table = s.IntegerField()
    name = s.CharField()
    due_at = s.DateTimeField(allow_null=True)


# ---------------------------------------------------------------- what is sent
class TableChoices(s.Serializer[Any]):
    """null = as proposed."""

    record_key = s.JSONField(
        required=False, allow_null=True, help_text='columns, or "row_hash"'
    )
    cursor = s.CharField(required=False, allow_null=True)
    partition_by = s.ListField(child=s.CharField(), required=False)
    buckets = s.IntegerField(required=False, allow_null=True)
    exclude_columns = s.ListField(child=s.CharField(), required=False)
    lake = s.CharField(
        required=False, allow_null=True, help_text="database.table in the lake"
    )
    updates = s.ChoiceField(
        choices=["full", "partial"],
        required=False,
        allow_null=True,
        help_text="partial: NULL in a changed row leaves the lake's value",
    )
    capture = s.ChoiceField(
        choices=["snapshot", "timestamp", "log"], required=False, allow_null=True
    )
    schedule = s.JSONField(required=False, allow_null=True)


class TableDefaults(s.Serializer[Any]):
    """For every table of the request that can have it; null = as proposed."""

    record_key = s.ChoiceField(
        choices=["row_hash"],
        required=False,
        allow_null=True,
        help_text="for tables without a key",
    )
    cursor = s.ListField(
        child=s.CharField(),
        required=False,
        help_text="names in order of preference; the first a table has is taken",
    )
    partition_by = s.ListField(child=s.CharField(), required=False)
    buckets = s.IntegerField(required=False, allow_null=True)
    exclude_columns = s.ListField(child=s.CharField(), required=False)
    otherwise = s.ChoiceField(
        choices=["snapshot"],
        required=False,
        allow_null=True,
        help_text="snapshot: tables that cannot be kept fresh are loaded once",
    )


class OnboardingNew(s.Serializer[Any]):
    """`ingest.pipelines.requests` checks it; this is its shape."""

    datasource = s.CharField()
    include = s.ListField(
        child=s.CharField(), help_text="db.table, db.*, db.ord*, or *"
    )
    exclude = s.ListField(child=s.CharField(), required=False)
    capture = s.ChoiceField(choices=["snapshot", "timestamp", "log"], required=False)
    schedule = s.JSONField(required=False, allow_null=True)
    target_database = s.CharField(required=False, allow_null=True)
    tables = s.DictField(child=TableChoices(), required=False)
    defaults = TableDefaults(required=False)
    dry_run = s.BooleanField(required=False)
    approve = s.BooleanField(required=False)


class CompactionNew(s.Serializer[Any]):
    """own: a driver for this compaction alone, where the table's lock is shared."""

    driver: Any = s.ChoiceField(choices=["own", "shared"], required=False)
    memory = s.CharField(required=False, help_text="4g; default is the most allowed")
    cores = s.IntegerField(required=False, help_text="default is the most allowed")
    dry_run = s.BooleanField(required=False)


class RemovalNew(s.Serializer[Any]):
    data: Any = s.ChoiceField(choices=["keep", "drop"], required=False)
    dry_run = s.BooleanField(required=False)


class PolicyChange(s.Serializer[Any]):
    """A merge patch: null takes a setting back."""

    schedule = s.JSONField(required=False, allow_null=True)
    lag_seconds = s.FloatField(required=False, allow_null=True)
    compact_after = s.IntegerField(required=False, allow_null=True)
    compact_log_bytes = s.IntegerField(required=False, allow_null=True)
    compact_log_ratio = s.FloatField(required=False, allow_null=True)
    compact_log_age_seconds = s.FloatField(required=False, allow_null=True)
    max_write_amplification = s.FloatField(required=False, allow_null=True)
    stuck_after_seconds = s.FloatField(required=False, allow_null=True)
    late_after_seconds = s.FloatField(required=False, allow_null=True)
    verify_every = s.FloatField(
        required=False, allow_null=True, help_text="seconds; 0 = only on request"
    )
    verify_rows_per_second = s.IntegerField(required=False, allow_null=True)
    quiet_hours = s.DictField(
        required=False,
        allow_null=True,
        help_text='{"from": "22:00", "to": "06:00", "timezone": "UTC"}',
    )
    compact_driver = s.DictField(
        required=False, allow_null=True, help_text='{"memory": "4g", "cores": 4}'
    )
    schema_changes: Any = s.ChoiceField(
        choices=["follow", "ask", "ignore"],
        required=False,
        allow_null=True,
        help_text="what becomes of columns that are added at the source",
    )


class SchemaProposal(s.Serializer[Any]):
    """What changed at the source of a lake table and waits for a decision."""

    table = s.IntegerField()
    schema_changes = s.CharField(help_text="the policy: follow, ask or ignore")
    changes = s.ListField(child=s.CharField(), help_text="empty: nothing waits")
    will = s.ListField(
        child=s.CharField(), help_text="what approving does; or why it cannot be"
    )
    is_possible = s.BooleanField()
    needs_resync = s.BooleanField()
    left_out = s.ListField(
        child=s.CharField(), help_text="columns at the source that are not synced"
    )
    partial_columns = s.CharField(
        help_text="columns whose older rows are NULL in the lake; empty when none is"
    )
