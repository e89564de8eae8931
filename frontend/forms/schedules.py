"""Fields of a schedule, for every form that takes one. Errors stand at their field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from core.errors import InvalidRequest
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
WHEN = [
    (INHERIT, _("As its database or source has it")),
    (EVERY, _("Every … seconds")),
    (CRON, _("By cron")),
    (MANUAL, _("Manual only")),
]


class ScheduleFields(forms.Form):
    """`when` says which of the other fields counts."""

    when = forms.ChoiceField(choices=WHEN, required=False, label=_("Syncs run"))
    every_seconds = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_SECONDS,
        label=_("Seconds"),
        help_text=_("From one sync to the next."),
    )
    cron = forms.CharField(
        required=False,
        max_length=LONGEST_CRON,
        label=_("Cron"),
        help_text=_("Five fields, such as 30 2 * * MON-FRI."),
    )
    timezone = forms.CharField(
        required=False,
        max_length=60,
        label=_("Time zone"),
        help_text=_("Such as Europe/Berlin. Empty: UTC."),
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
        return {"when": CRON, "cron": stored["cron"], "timezone": zone}
    return {"when": EVERY, "every_seconds": stored["every_seconds"]}


def schedule_of(data: Mapping[str, Any]) -> Schedule | None:
    """What the fields say; without `when`, cron goes before seconds."""
    cron = str(data.get("cron") or "").strip()
    seconds = str(data.get("every_seconds") or "")
    when = data.get("when") or (CRON if cron else EVERY if seconds else INHERIT)
    if when == MANUAL:
        return parse_schedule(MANUAL)
    if when == CRON:
        zone = str(data.get("timezone") or "").strip() or "UTC"
        return parse_schedule({"cron": cron, "timezone": zone})
    if when == EVERY:
        number = int(seconds[:12]) if seconds.isascii() and seconds.isdigit() else 0
        return parse_schedule({"every_seconds": number})
    return None


def _faults_of(refused: InvalidRequest) -> Iterator[tuple[str | None, str]]:
    """Each with the field that it is about, None = another one."""
    errors = refused.facts.get("errors")
    for each in errors if isinstance(errors, list) else []:
        name = str(each["pointer"]).rpartition("/")[2]
        yield name if name in SCHEDULE_FIELDS else None, str(each["detail"])
