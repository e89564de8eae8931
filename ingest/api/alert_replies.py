"""Replies about alerts, and requests of their targets. What an alert says is made by
`ingest.alerts.messages`, for webhooks too."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from catalog.api.reply import Instant, OrNull, Reply, Stored, Texts, of
from catalog.api.serializers import Patch, Text
from catalog.preferences import languages
from ingest.alerts import targets
from ingest.alerts.rules import ALERTS, KINDS, SEVERITIES
from ingest.models.alerts import AlertTarget as TargetRow


class Alert(Stored):
    id = s.IntegerField()
    kind = s.ChoiceField(choices=list(ALERTS))
    severity = s.ChoiceField(choices=list(SEVERITIES))
    state = s.ChoiceField(choices=["open", "closed"])
    table = s.IntegerField(
        allow_null=True, help_text="null = it is deleted, or the alert is of a source"
    )
    datasource = s.CharField(allow_null=True, help_text="of an alert of a source")
    name = s.CharField()
    owner = s.CharField(allow_null=True, help_text="who answers for the table")
    message = s.CharField()
    code = s.CharField()
    hint = s.CharField()
    repair = s.CharField(allow_null=True, help_text="the verb that may help")
    instant = s.CharField(allow_null=True)
    job = s.CharField(allow_null=True)
    count = s.IntegerField(help_text="how often it was found again")
    first_seen_at = Instant()
    last_seen_at = Instant()
    closed_at = Instant(allow_null=True)
    closed_because = s.ChoiceField(
        choices=["recovered", "paused", "removed", "dismissed"], allow_null=True
    )
    closed_reason = s.CharField()
    acknowledged_at = Instant(allow_null=True)
    acknowledged_by = s.CharField(allow_null=True, help_text="who has seen it")
    url = s.CharField(help_text="the page where something can be done")


class AlertMute(Reply):
    id = s.IntegerField()
    on = s.CharField(help_text="lake, lake.shop, lake.shop.orders or a source")
    kind = s.CharField(allow_blank=True, help_text='"" = all kinds')
    until = Instant()
    created_by = s.CharField()
    created_at = Instant()


class AlertMuteNew(s.Serializer[Any]):
    on = Text(max_length=600, help_text="lake, lake.shop, lake.shop.orders or a source")
    kind = s.ChoiceField(
        choices=list(ALERTS), required=False, default="", allow_blank=True
    )
    seconds = s.IntegerField(help_text="60 to 2678400")


class AlertTarget(Reply):
    name = s.CharField()
    kind = s.ChoiceField(choices=list(targets.TARGET_KINDS))
    address = of(
        s.CharField(allow_null=True),
        lambda row: row.address if row.kind == TargetRow.EMAIL else None,
    )
    url = of(
        s.CharField(allow_null=True, help_text="of a chat: its host alone"),
        lambda row: None if row.kind == TargetRow.EMAIL else row.address,
    )
    has_secret = of(s.BooleanField(), lambda row: bool(row.secret))
    kinds = Texts(help_text="empty = all")
    on = of(
        s.CharField(allow_null=True, help_text="null = the whole lake"),
        lambda row: targets.scope_text(row),
    )
    language = OrNull(help_text="of its messages; null = the installation's")
    state = s.ChoiceField(choices=["ok", "failing", "paused"])
    failures = s.IntegerField()
    failing_since = Instant(allow_null=True)
    paused_reason = s.CharField()
    created_by = s.CharField()
    created_at = Instant()


class AlertDelivery(Reply):
    id = s.CharField(
        help_text="the same in each attempt: Sluice-Delivery", source="key"
    )
    target = s.CharField(source="target.name")
    event = s.ChoiceField(choices=["opened", "recovered", "closed", "test"])
    alert = s.IntegerField(allow_null=True, source="alert_id")
    state = s.ChoiceField(choices=["waiting", "delivered", "given_up"])
    attempts = s.IntegerField()
    created_at = Instant()
    last_at = Instant(allow_null=True)
    last_code = s.IntegerField(allow_null=True, help_text="of HTTP or SMTP")
    last_error = s.CharField()
    next_try_at = Instant(allow_null=True)


class AlertTargetNew(s.Serializer[Any]):
    name = Text(max_length=100)
    kind = s.ChoiceField(choices=list(targets.TARGET_KINDS))
    address = Text(max_length=254, required=False, default="", allow_blank=True)
    url = Text(max_length=1000, required=False, default="", allow_blank=True)
    secret = Text(
        max_length=1000, required=False, default="", allow_blank=True, write_only=True
    )
    kinds = s.ListField(
        child=s.ChoiceField(choices=list(KINDS)), required=False, default=list
    )
    on = Text(max_length=600, required=False, default=None, allow_null=True)
    language = s.ChoiceField(
        choices=sorted(languages()),
        required=False,
        default=None,
        allow_null=True,
        help_text="of its messages; null = the installation's",
    )


class AlertTargetChange(Patch):
    """null: all of the lake, the installation's language."""

    kinds = s.ListField(child=s.ChoiceField(choices=list(KINDS)))
    on = Text(max_length=600, allow_null=True)
    language = s.ChoiceField(choices=sorted(languages()), allow_null=True)
