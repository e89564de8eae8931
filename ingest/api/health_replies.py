"""Replies about health and repairs. Add members, never rename or remove one."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from catalog.api.reply import Count, Instant, OrNull, Reply, Stored, Texts, of
from ingest.maintenance.merging import describe


class HealthIssue(Stored):
    code = s.CharField()
    points = s.IntegerField()
    reason = s.CharField()
    repair = s.CharField(
        allow_null=True, help_text="the verb that wins the points back"
    )
    instant = s.CharField(allow_null=True)
    buckets = s.IntegerField(
        allow_null=True, help_text="how many `:resize` should be asked for"
    )
    action = s.CharField(
        allow_null=True, help_text="of unfinished work: what it is on the timeline"
    )
    state = s.CharField(
        allow_null=True, help_text="of unfinished work: REQUESTED or INFLIGHT"
    )


class MaintenanceStep(Stored):
    step = s.ChoiceField(choices=["execute", "schedule", "wait", "decide"])
    reason = s.CharField()
    instants = Texts()
    at = Instant(allow_null=True)


class PendingPlan(Reply):
    groups = s.IntegerField()
    log_bytes = Count()
    is_readable = s.BooleanField()


class PendingInstant(Reply):
    instant = s.CharField()
    action = s.CharField()
    state = s.CharField()
    age_seconds = s.FloatField()
    is_held = s.BooleanField(help_text="a job works on it")
    behind = s.IntegerField(help_text="later instants that cannot be archived")
    plan = PendingPlan(allow_null=True)
    back_to = s.CharField(
        help_text="of a restore: the savepoint with which it is asked for again"
    )


class Verification(Reply):
    at = Instant(
        allow_null=True, help_text="null = never verified", source="verified_at"
    )
    result = of(
        s.ChoiceField(choices=["equal", "different"], allow_null=True),
        lambda pipeline: pipeline.verdict or None,
    )
    job = s.CharField(
        allow_null=True,
        help_text="lists keys for who may read rows",
        source="verified_job",
    )
    next_at = Instant(
        allow_null=True, help_text="null = only on request", source="verify_at"
    )


class MergeCost(Reply):
    """What waiting log files cost readers, and what it takes to remove them."""

    ratio = s.FloatField(
        help_text="a full read, as a multiple of the same after a compaction; estimated"
    )
    rewrite_bytes = Count(help_text="that a compaction of everything writes")
    due_groups = s.IntegerField(help_text="file groups worth a compaction, affordable")
    due_bytes = Count(help_text="that this writes")
    waiting_groups = s.IntegerField(help_text="worth it, not affordable yet")
    credit_bytes = Count(help_text="that compactions may write now", source="credit")
    needed_write_amplification = s.FloatField(
        allow_null=True, help_text="that would afford what waits", source="needs"
    )
    max_write_amplification = s.FloatField(help_text="of the policy", source="allowed")
    write_amplification_today = s.FloatField(
        allow_null=True,
        help_text="bytes written per byte changed, this day in UTC",
        source="measured",
    )
    description = of(Texts(), lambda cost: list(describe(cost)))


class TableHealth(Reply):
    table = s.IntegerField()
    name = s.CharField()
    score = s.IntegerField(allow_null=True, help_text="0 to 100; null = not seen yet")
    collected_at = Instant(allow_null=True)
    problem = s.CharField(help_text="why the last check failed, or empty")
    issues = HealthIssue(many=True)
    plan = MaintenanceStep(many=True)
    pending = PendingInstant(many=True)
    merge = MergeCost(allow_null=True)
    facts = s.DictField(allow_null=True)
    verification = Verification()


class FileGroup(Reply):
    partition: Any = s.CharField()
    file_id = s.CharField()
    bucket = s.IntegerField(allow_null=True)
    base_file = OrNull(source="base")
    base_instant = OrNull()
    base_bytes = Count()
    log_files = s.IntegerField()
    log_bytes = Count()


class TrendPoint(Stored):
    at = Instant()
    score = s.IntegerField()
    base_bytes = Count()
    log_bytes = Count()
    old_bytes = Count()
    groups = s.IntegerField()
    lag = s.FloatField(
        allow_null=True,
        required=False,
        help_text="seconds behind its source; null = not known",
    )


class CommitTime(Reply):
    instant = s.CharField()
    action = s.CharField()
    seconds = s.FloatField()


class WrittenDay(Reply):
    day = s.DateField(help_text="in UTC")
    changed_rows = Count()
    changed_bytes = Count(help_text="what syncs wrote")
    upkeep_bytes = Count(help_text="the same rows again: compactions, replacements")
    loaded_bytes = Count()
    table_bytes = Count(help_text="what readers read at the day's last check")


class WrittenBytes(Reply):
    """Of the last 90 days at most."""

    amplification = s.FloatField(
        allow_null=True, help_text="bytes written per byte of changed rows"
    )
    bytes_per_changed_row = s.FloatField(allow_null=True, source="bytes_per_row")
    growth_bytes_per_day = Count(
        allow_null=True, help_text="null before two days", source="growth_per_day"
    )
    days = WrittenDay(many=True)


class TableMetrics(Reply):
    table = s.IntegerField()
    collected_at = Instant(allow_null=True)
    base_bytes = Count()
    log_bytes = Count()
    old_bytes = Count()
    log_ratio = s.FloatField()
    commit_seconds = s.FloatField(allow_null=True, help_text="the middle one")
    written = WrittenBytes()
    commits = CommitTime(many=True)
    trend = TrendPoint(many=True)


class Shape(Reply):
    buckets = s.IntegerField()
    file_groups = s.IntegerField()
    file_bytes = Count(help_text="of a base file on average")


class Resize(Reply):
    before = Shape()
    after = Shape()
    bytes = Count(help_text="read and written once")
    reason = s.CharField()


class Rereading(Reply):
    """What a repair would read, and at most write."""

    chunks = s.IntegerField(help_text="parts of the source that are read again")
    of = s.IntegerField(help_text="parts that there are")
    written = Count(help_text="rows that the lake lacks, or has with other values")
    deleted = Count(help_text="rows that only the lake has")


class Savepoint(Reply):
    instant = s.CharField()
    at = Instant(allow_null=True, help_text="when its commit ended")
    made_at = Instant(allow_null=True)
    ends_at = Instant(
        allow_null=True, help_text="the next cleaning afterwards takes it away"
    )
    later = s.IntegerField(help_text="commits that going back would take away")


class CompactedGroup(Reply):
    partition: Any = s.CharField(
        help_text="empty for who may not read the table whole, too"
    )
    file_id = s.CharField()
    bucket = s.IntegerField(allow_null=True)
    base_bytes = Count()
    log_files = s.IntegerField()
    log_bytes = Count()


class Compaction(Reply):
    """What a compaction would merge."""

    instants = Texts(help_text="planned ones; empty = one is planned first")
    groups_total = s.IntegerField()
    base_bytes = Count(help_text="of the base files that are written again")
    log_files = s.IntegerField()
    log_bytes = Count()
    groups = CompactedGroup(many=True, help_text="at most 50, most log bytes first")


class RepairPreview(Reply):
    """The answer to `"dry_run": true`."""

    table = s.CharField()
    action = s.CharField()
    instants = PendingInstant(many=True)
    will = Texts()
    misses = Texts(help_text="what it cannot bring back, in sentences")
    then = OrNull(help_text="the verb that brings that back")
    resize = Resize(allow_null=True)
    compaction = Compaction(allow_null=True)
    repair = Rereading(allow_null=True)
    dry_run = of(s.BooleanField(), lambda preview: True)
