"""Entries of a configuration document about tables, settings and alerts."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from catalog.api.documents import Stated
from catalog.api.serializers import Owner, Tags, Text
from ingest.api.alert_replies import AlertTargetNew
from ingest.api.requests import OnboardingNew, PolicyChange, TableChoices


class StatedPolicy(Stated, PolicyChange):
    on = Text(max_length=700)
    needed = ("on",)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """As they are written, null too, which takes a setting back: which numbers are
        right the policy says."""
        super().to_internal_value(data)
        return dict(data)


class StatedTarget(Stated, AlertTargetNew):
    """The path of a webhook may be what lets people in: `host` alone is stated."""

    url = None  # type: ignore[assignment]
    secret = None  # type: ignore[assignment]
    host = Text(max_length=253)
    url_env = Text()
    secret_env = Text()
    needed = ("name", "kind")


class StatedTable(Stated, TableChoices):
    lake_name = None  # type: ignore[assignment]  # `lake` says it
    capture = None  # type: ignore[assignment]
    schedule = None  # type: ignore[assignment]
    policy = s.DictField()
    owner = Owner(allow_blank=True)
    tags = Tags()


class StatedOnboarding(Stated, OnboardingNew):
    defaults = None  # type: ignore[assignment]
    dry_run = None  # type: ignore[assignment]
    approve = None  # type: ignore[assignment]
    tables = s.DictField(  # type: ignore[assignment]
        child=StatedTable(allow_null=True)
    )
    needed = ("datasource",)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs.get("include") and not attrs.get("tables"):
            raise s.ValidationError(
                "name tables under 'tables' or patterns under 'include'"
            )
        return attrs
