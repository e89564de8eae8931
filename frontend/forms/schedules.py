"""Fields of a schedule, for every form that takes one. Errors stand at their field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext_lazy as _

from core.errors import InvalidRequest
from frontend.forms.optional import OptionalForm
from frontend.forms.quantities import QuantityField, amount_in
from ingest.pipelines.policies.schedule import (
    LONGEST_CRON,
    MANUAL,
    MAX_SECONDS,
    Schedule,
    parse_schedule,
    schedule_to_json,
)

SCHEDULE_FIELDS = {"every_seconds", "cron", "timezone"}
INHERIT, EVERY, CRON = "inherit", "every", "cron"
DAILY, DAILY_CRON = "daily", "0 2 * * *"
PRESETS = (
    (10, _("Every 10 seconds")),
    (60, _("Every minute")),
    (300, _("Every 5 minutes")),
    (900, _("Every 15 minutes")),
    (3600, _("Every hour")),
)
WHEN = [
    (INHERIT, _("Inherit from database or source")),
    *((f"{EVERY}:{seconds}", word) for seconds, word in PRESETS),
    (DAILY, _("Daily at 02:00")),
    (EVERY, _("Another interval…")),
    (CRON, _("Cron…")),
    (MANUAL, _("On request only")),
]


class ScheduleFields(OptionalForm):
    """`when` says which of the other fields counts."""

    when = forms.ChoiceField(choices=WHEN, label=_("Syncs run"))
    every_seconds = QuantityField(
        unit="s",
        label=_("Interval between syncs"),
        validators=[MinValueValidator(1), MaxValueValidator(MAX_SECONDS)],
        widget=forms.TextInput(attrs={"placeholder": _("15 min")}),
    )
    cron = forms.CharField(
        max_length=LONGEST_CRON,
        label=_("Cron"),
        widget=forms.TextInput(attrs={"placeholder": "30 2 * * MON-FRI"}),
        help_text=_("Five fields, such as 30 2 * * MON-FRI."),
    )
    timezone = forms.CharField(
        max_length=60,
        label=_("Time zone"),
        widget=forms.TextInput(attrs={"placeholder": "UTC"}),
        help_text=_("Such as Europe/Berlin."),
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        try:
            schedule_of(self.cleaned_data)
        except InvalidRequest as refused:
            for field, detail in _faults_of(refused):
                if field not in self.errors:
                    self.add_error(field, detail)
        return data

    @property
    def schedule(self) -> Any:
        """As policies store it; None = inherited."""
        return schedule_to_json(schedule_of(self.cleaned_data))


def schedule_initial(stored: Any) -> dict[str, Any]:
    """Values of the fields for a stored schedule; None = inherited."""
    if stored is None:
        return {"when": INHERIT}
    if stored == MANUAL:
        return {"when": MANUAL}
    if "cron" in stored:
        zone = stored.get("timezone", "UTC")
        if stored["cron"] == DAILY_CRON:
            return {"when": DAILY, "timezone": zone}
        return {"when": CRON, "cron": stored["cron"], "timezone": zone}
    seconds = stored["every_seconds"]
    if seconds in dict(PRESETS):
        return {"when": f"{EVERY}:{seconds}"}
    return {"when": EVERY, "every_seconds": seconds}


def schedule_of(data: Mapping[str, Any]) -> Schedule | None:
    """What the fields say; without `when`, cron goes before seconds."""
    cron = str(data.get("cron") or "").strip()
    seconds = str(data.get("every_seconds") or "")
    when = data.get("when") or (CRON if cron else EVERY if seconds else INHERIT)
    if when == MANUAL:
        return parse_schedule(MANUAL)
    if when in (CRON, DAILY):
        zone = str(data.get("timezone") or "").strip() or "UTC"
        cron = cron if when == CRON else DAILY_CRON
        return parse_schedule({"cron": cron, "timezone": zone})
    kind, _colon, preset = when.partition(":")
    if kind == EVERY:
        amount = amount_in((preset or seconds)[:60], "s") or 0
        is_whole = amount == int(amount)
        return parse_schedule({"every_seconds": int(amount) if is_whole else 0})
    return None


def _faults_of(refused: InvalidRequest) -> Iterator[tuple[str | None, str]]:
    """Each with the field that it is about, None = another one."""
    errors = refused.facts.get("errors")
    for each in errors if isinstance(errors, list) else []:
        name = str(each["pointer"]).rpartition("/")[2]
        yield name if name in SCHEDULE_FIELDS else None, str(each["detail"])
