"""Rows of alerts: targets, alerts, deliveries. Facts and constraints only."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from catalog.models import Datasource, Table
from catalog.names import LAKE, join_name
from core.sentence_field import SentenceField

# Kinds that are about a source as a whole.
SOURCE_KINDS = frozenset({"capture"})


class AlertTarget(models.Model):
    """A recipient of alerts: a mailbox, a web address or the robot of a group chat.

    kind           of ingest.alerts.targets.TARGET_KINDS
    address        e-mail address or URL; of a chat: what of it may be shown
    secret         of webhooks: signs; of chats: where they are (webhook.chat_place);
                   encrypted (catalog.secrets), never returned
    kinds          of ingest.alerts.rules, [] = all
    database, table   of the lake, "" = everything
    language       of its messages, "" = the installation's
    retry_at       not before; also while an attempt is under way
    sending_until  lease of the attempt under way; None = none is
    failing_since  first failure after the last success
    """

    EMAIL, WEBHOOK = "email", "webhook"

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=10)
    address = models.CharField(max_length=1000)
    secret = models.TextField(blank=True)
    kinds = ArrayField(models.CharField(max_length=30), default=list, blank=True)
    database = models.CharField(max_length=200, blank=True)
    table = models.CharField(max_length=300, blank=True)
    language = models.CharField(max_length=20, blank=True, default="")
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    sending_until = models.DateTimeField(null=True, blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_reason = SentenceField(blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("name"), name="one_alert_target_per_folded_name"
            )
        ]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        if self.paused_at is not None:
            return "paused"
        return "failing" if self.failures else "ok"


class Alert(models.Model):
    """Something is, or was, wrong with a lake table, or with the reading of a source's
    log. One is open per table and kind, or source and kind.

    table         None once the table itself is deleted; its names stay
    datasource    of one about a source, whose name is `name`; it has no table
    cause         what was counted last, sources: see ingest.alerts.rules.Finding
    is_announced, is_end_announced   deliveries for all who want them are there
    acknowledged_at    somebody has seen it: it stays open, and is not counted as new
    """

    table = models.ForeignKey(
        Table, on_delete=models.SET_NULL, related_name="alerts", null=True
    )
    datasource = models.ForeignKey(
        Datasource, on_delete=models.SET_NULL, related_name="alerts", null=True
    )
    database = models.CharField(max_length=200)
    name = models.CharField(max_length=300)
    kind = models.CharField(max_length=30)
    cause = models.TextField(blank=True)
    sources = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    code = models.CharField(max_length=80, blank=True)
    message = SentenceField()
    hint = SentenceField(blank=True)
    repair = models.CharField(max_length=40, blank=True)
    instant = models.CharField(max_length=30, blank=True)
    job = models.UUIDField(null=True, blank=True)
    count = models.PositiveIntegerField(default=1)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_because = models.CharField(max_length=20, blank=True)
    closed_reason = SentenceField(blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(
        max_length=150, blank=True, default="", db_default=""
    )
    is_announced = models.BooleanField(default=False)
    is_end_announced = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["table", "kind"],
                condition=Q(closed_at=None),
                name="one_open_alert_per_table_and_kind",
            ),
            models.UniqueConstraint(
                fields=["datasource", "kind"],
                condition=Q(closed_at=None),
                name="one_open_alert_per_source_and_kind",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["-id"], condition=Q(closed_at=None), name="open_alerts"
            ),
            models.Index(
                fields=["id"],
                condition=Q(is_announced=False)
                | Q(closed_at__isnull=False, is_end_announced=False),
                name="unannounced_alerts",
            ),
        ]
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.on}"

    @property
    def owner(self) -> str | None:
        """Who answers for its table."""
        return (self.table.owner if self.table else "") or None

    @property
    def on(self) -> str:
        """The full name of what it is about, as grants have it."""
        is_source = self.kind in SOURCE_KINDS
        return self.name if is_source else join_name(LAKE, self.database, self.name)


class AlertMute(models.Model):
    """Nobody is notified of alerts that open there until then; they are shown.

    datasource   LAKE, or of alerts of sources the source
    database, table   of the lake, "" = all of the level above
    kind         of ingest.alerts.rules, "" = all
    """

    datasource = models.CharField(max_length=100)
    database = models.CharField(max_length=200, blank=True)
    table = models.CharField(max_length=300, blank=True)
    kind = models.CharField(max_length=30, blank=True)
    until = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["datasource", "database", "table", "kind"],
                name="one_mute_per_thing_and_kind",
            )
        ]
        ordering: ClassVar = ["until", "id"]

    @property
    def on(self) -> str:
        return join_name(self.datasource, self.database, self.table)


class AlertDelivery(models.Model):
    """One message to one target, with how its attempts went.

    key          the same for every attempt, so that a receiver knows a repetition
    body         what is sent, as it was when the alert opened or ended
    attempts     also the fence: only the attempt that was counted last is recorded
    next_try_at  None = over; while an attempt runs, when it counts as lost
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    alert = models.ForeignKey(
        Alert, on_delete=models.SET_NULL, related_name="deliveries", null=True
    )
    target = models.ForeignKey(
        AlertTarget, on_delete=models.CASCADE, related_name="deliveries"
    )
    event = models.CharField(max_length=20)
    body = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    attempts = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField(null=True, blank=True)
    last_code = models.IntegerField(null=True, blank=True)
    last_error = SentenceField(blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    gave_up_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "alert deliveries"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["alert", "target", "event"], name="one_delivery_per_event"
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["target", "id"],
                condition=Q(next_try_at__isnull=False),
                name="deliveries_to_send",
            ),
            models.Index(fields=["target", "-id"], name="deliveries_of_a_target"),
        ]
        ordering: ClassVar = ["-id"]

    @property
    def state(self) -> str:
        if self.delivered_at is not None:
            return "delivered"
        return "given_up" if self.gave_up_at is not None else "waiting"


class Presence(models.Model):
    """The one row with the time of the last tick, and of the last gap without one.

    away_since, back_at   ends of the last gap; None = there was none
    """

    seen_at = models.DateTimeField()
    away_since = models.DateTimeField(null=True, blank=True)
    back_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "presence"
