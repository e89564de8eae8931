"""Bodies of alerts in the OpenAPI document and requests of their targets. The real ones
are made in `ingest.alerts.messages` and `ingest.api.alerts`; a test compares."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from catalog.api.serializers import Text
from ingest.alerts.rules import ALERTS, KINDS


class Alert(s.Serializer[Any]):
    id = s.IntegerField()
    kind = s.ChoiceField(choices=list(ALERTS))
    state = s.ChoiceField(choices=["open", "closed"])
    table = s.IntegerField(allow_null=True, help_text="null = it is deleted")
    name = s.CharField()
    message = s.CharField()
    code = s.CharField()
    hint = s.CharField()
    repair = s.CharField(allow_null=True, help_text="the verb that may help")
    instant = s.CharField(allow_null=True)
    job = s.CharField(allow_null=True)
    count = s.IntegerField(help_text="how often it was found anew")
    first_seen_at = s.DateTimeField()
    last_seen_at = s.DateTimeField()
    closed_at = s.DateTimeField(allow_null=True)
    closed_because = s.ChoiceField(
        choices=["recovered", "paused", "removed", "dismissed"], allow_null=True
    )
    closed_reason = s.CharField()
    url = s.CharField(help_text="the page where something can be done")


class AlertTarget(s.Serializer[Any]):
    name = s.CharField()
    kind = s.ChoiceField(choices=["email", "webhook"])
    address = s.CharField(allow_null=True)
    url = s.CharField(allow_null=True)
    has_secret = s.BooleanField()
    kinds = s.ListField(child=s.CharField(), help_text="empty = all")
    on = s.CharField(allow_null=True, help_text="null = the whole lake")
    state = s.ChoiceField(choices=["ok", "failing", "paused"])
    failures = s.IntegerField()
    failing_since = s.DateTimeField(allow_null=True)
    paused_reason = s.CharField()
    created_by = s.CharField()
    created_at = s.DateTimeField()


class AlertDelivery(s.Serializer[Any]):
    id = s.CharField(help_text="the same in each attempt: Sluice-Delivery")
    target = s.CharField()
    event = s.ChoiceField(choices=["opened", "recovered", "closed", "test"])
    alert = s.IntegerField(allow_null=True)
    state = s.ChoiceField(choices=["waiting", "delivered", "given_up"])
    attempts = s.IntegerField()
    created_at = s.DateTimeField()
    last_at = s.DateTimeField(allow_null=True)
    last_code = s.IntegerField(allow_null=True, help_text="of HTTP or SMTP")
    last_error = s.CharField()
    next_try_at = s.DateTimeField(allow_null=True)


class AlertTargetNew(s.Serializer[Any]):
    name = Text(max_length=100)
    kind = s.ChoiceField(choices=["email", "webhook"])
    address = Text(max_length=254, required=False, default="", allow_blank=True)
    url = Text(max_length=1000, required=False, default="", allow_blank=True)
    secret = Text(
        max_length=1000, required=False, default="", allow_blank=True, write_only=True
    )
    kinds = s.ListField(
        child=s.ChoiceField(choices=list(KINDS)), required=False, default=list
    )
    on = Text(max_length=600, required=False, default=None, allow_null=True)
