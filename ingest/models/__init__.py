"""Rows of ingestion: requests, onboarded tables, epochs, maintenance plans.

Django rows are caches of what the lake says, except for what people asked for.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from catalog.models import Database, Datasource, Table
from core.models import EventBase
from core.sentence_field import SentenceField
from core.states import Transitions
from ingest.models import states
from ingest.models.alerts import Alert as Alert
from ingest.models.alerts import AlertDelivery as AlertDelivery
from ingest.models.alerts import AlertTarget as AlertTarget
from ingest.models.alerts import Presence as Presence
from ingest.models.followers import SourceFollower as SourceFollower
from ingest.models.rollups import Rollup as Rollup


class Onboarding(models.Model):
    """One request to carry tables: what was asked, and the plan that was shown.

    looked_at  the discovery up to which new tables that it means were looked for
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    datasource = models.ForeignKey(
        Datasource, on_delete=models.CASCADE, related_name="onboardings"
    )
    request = models.JSONField()
    requested_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    approved_at = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=150, blank=True)
    looked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"onboarding {self.id}"


class Pipeline(models.Model):
    """The sync of one source table into one lake table; of a sharded one that is the
    first of its shards, which `Shard` has all of.

    policy        the table's own settings; the rest is inherited, see Policy
    plan          steps and proposals of ingest.planning, JSON; executed as shown
    drift         added columns that were followed, and whether their older values were
                  read (ingest.pipelines.schema_diff), by source name; by "" whether it
                  needs a re-sync (ingest.pipelines.needed_resync)
    resume_event  the event that goes back to where a pause or failure stopped it
    load_name     of its newest load, for all attempts. Where its log is followed, the
                  stream has a cut of that name
    bound         lower bound of capture, noted before the first load attempt; where its
                  log is followed: where its load was read, once that is committed
    position      upper bound of the last committed sync
    alone_reason  why its jobs run in processes of their own; "" = in the shared driver
    source_fingerprint  at the last sync, see ingest.sources.fingerprint
    waiting       segments of its stream with rows of it that are not applied, the first
                  of them committed at the source at `waiting_since`
    changes_per_second   that were applied lately; rows_applied: since ever
    lossy         lake column → how many values that were applied since its load began
                  had no form in the lake
    due_since     moments of its schedule after this want a sync still
    late_at       when it counts as late unless a sync ends before; None = never
    verify_at     when to look whether it has to be verified; None = never
    verified_at, verdict, verified_job   of the newest verification of these rows
    replaced      the table that took the place of the source table, as its log says
                  (ingest.pipelines.replaced); {} = none since its load
    is_recorded   the lake's record of the table (ingest.contract.records) says what
                  this row says; a trigger of the database takes it off
    """

    transitions: ClassVar[Transitions] = states.PIPELINE

    onboarding = models.ForeignKey(
        Onboarding, on_delete=models.CASCADE, related_name="tables"
    )
    source_table = models.ForeignKey(
        Table, on_delete=models.PROTECT, related_name="outgoing_pipelines"
    )
    lake_table = models.ForeignKey(
        Table,
        on_delete=models.SET_NULL,
        related_name="pipelines",
        null=True,
        blank=True,
    )
    capture = models.CharField(max_length=20)
    policy = models.JSONField(default=dict, blank=True)
    plan = models.JSONField(default=dict)
    drift = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=20, default=states.DRAFT)
    status_reason = SentenceField(blank=True)
    resume_event = models.CharField(max_length=30, blank=True)
    load_name = models.CharField(max_length=40, blank=True, default="")
    consistency = models.CharField(max_length=20, blank=True)
    bound = models.TextField(blank=True)
    position = models.TextField(blank=True)
    waiting = models.PositiveIntegerField(default=0)
    waiting_since = models.DateTimeField(null=True, blank=True)
    changes_per_second = models.FloatField(default=0.0)
    rows_applied = models.BigIntegerField(default=0)
    lossy = models.JSONField(default=dict, blank=True)
    source_fingerprint = models.JSONField(default=dict, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    due_since = models.DateTimeField(null=True, blank=True)
    late_at = models.DateTimeField(null=True, blank=True)
    verify_at = models.DateTimeField(null=True, blank=True)
    verified_at = models.DateTimeField(null=True, blank=True)
    verdict = models.CharField(max_length=20, blank=True)
    verified_job = models.UUIDField(null=True, blank=True)
    replaced = models.JSONField(default=dict, blank=True)
    failures = models.PositiveIntegerField(default=0)
    drop_data = models.BooleanField(default=False)
    alone_reason = SentenceField(blank=True, default="")
    is_recorded = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["source_table"],
                condition=~Q(state="RETIRED"),
                name="one_live_pipeline_per_table",
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["due_at"],
                condition=Q(due_at__isnull=False),
                name="due_pipelines",
            ),
            models.Index(fields=["state", "id"]),
            models.Index(
                fields=["late_at"],
                condition=Q(late_at__isnull=False),
                name="late_pipelines",
            ),
            models.Index(
                fields=["verify_at"],
                condition=Q(verify_at__isnull=False),
                name="due_verifications",
            ),
            models.Index(
                fields=["verified_job"],
                condition=Q(verified_job__isnull=False),
                name="newest_verifications",
            ),
            models.Index(
                fields=["id"],
                condition=Q(is_recorded=False, lake_table__isnull=False),
                name="unrecorded_pipelines",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_table} [{self.state}]"

    @property
    def lake(self) -> Table:
        """Its lake table; it has one once it is approved."""
        assert self.lake_table is not None, "it was never approved"
        return self.lake_table

    @property
    def event_facts(self) -> dict[str, Any]:
        return {"table": self.lake_table_id}

    @property
    def estimated_rows(self) -> int:
        """Of its source table, or of all its shards, as discovery saw them last."""
        create, *_ = self.plan.get("steps") or [{}]
        if not create.get("shards"):
            return max(0, self.source_table.estimated_rows)
        rows = self.shards.order_by()
        return rows.aggregate(n=models.Sum("source_table__estimated_rows"))["n"] or 0


class Shard(models.Model):
    """One of the source tables that are one lake table, in their order."""

    pipeline = models.ForeignKey(
        Pipeline, on_delete=models.CASCADE, related_name="shards"
    )
    source_table = models.ForeignKey(
        Table, on_delete=models.PROTECT, related_name="shards"
    )

    class Meta:
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pipeline", "source_table"], name="one_shard_per_table"
            )
        ]


class PipelineEvent(EventBase):
    pipeline = models.ForeignKey(
        Pipeline, on_delete=models.CASCADE, related_name="events"
    )

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            # few among all moves
            models.Index(
                fields=["-id"],
                condition=Q(event__in=states.DECIDED),
                name="decided_moves",
            ),
        ]


class Policy(models.Model):
    """Settings given at a datasource, or at one of its databases; tables inherit.

    given  keys and values as checked; an absent key is inherited
    """

    datasource = models.ForeignKey(
        Datasource, on_delete=models.CASCADE, related_name="policies"
    )
    database = models.OneToOneField(
        Database,
        on_delete=models.CASCADE,
        related_name="policy",
        null=True,
        blank=True,
    )
    given = models.JSONField(default=dict, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "policies"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["datasource"],
                condition=Q(database=None),
                name="one_policy_per_datasource",
            )
        ]


class MaintenancePlan(models.Model):
    """Mirrors one compaction on a lake table's timeline."""

    transitions: ClassVar[Transitions] = states.MAINTENANCE

    table = models.ForeignKey(
        Table, on_delete=models.CASCADE, related_name="maintenance_plans"
    )
    instant = models.CharField(max_length=30)
    state = models.CharField(max_length=20, default=states.SCHEDULED)
    status_reason = SentenceField(blank=True)
    failures = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["table", "instant"], name="one_plan_per_instant"
            )
        ]
        # asked each second, and completed plans are many
        indexes: ClassVar = [
            models.Index(fields=["created_at"], name="plans_by_age"),
            models.Index(
                fields=["instant"],
                condition=Q(state=states.SCHEDULED),
                name="plans_scheduled",
            ),
            models.Index(
                fields=["due_at"],
                condition=Q(state=states.PLAN_FAILED),
                name="plans_to_repeat",
            ),
        ]


class TableHealth(models.Model):
    """What was last seen of a lake table's files and timeline, and what it is worth.

    facts    of ingest.maintenance.facts; issues, plan: what the score and the policy
             made of them
    trend    points of time, newest last, for charts
    problem  why the last look failed, "" when it did not
    due_at   when to look again; None = not before its next commit
    base_bytes … stuck   of the facts, for sums over all tables
    """

    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="health")
    score = models.PositiveSmallIntegerField(null=True, blank=True)
    facts = models.JSONField(default=dict, blank=True)
    issues = models.JSONField(default=list, blank=True)
    plan = models.JSONField(default=list, blank=True)
    base_bytes = models.BigIntegerField(default=0)
    log_bytes = models.BigIntegerField(default=0)
    old_bytes = models.BigIntegerField(default=0)
    pending = models.PositiveIntegerField(default=0)
    stuck = models.PositiveIntegerField(default=0)
    trend = models.JSONField(default=list, blank=True)
    problem = SentenceField(blank=True)
    collected_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "table healths"
        indexes: ClassVar = [
            models.Index(fields=["score", "table"], name="worst_health_first"),
            models.Index(
                fields=["due_at"],
                condition=Q(due_at__isnull=False),
                name="due_health_looks",
            ),
            models.Index(
                fields=["table"],
                condition=~Q(problem=""),
                name="failed_health_looks",
            ),
        ]


class DriverIncarnation(models.Model):
    """One start of a warm driver, so that jobs of a dead one are recognised."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pid = models.PositiveIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    facts = models.JSONField(default=dict, blank=True)
