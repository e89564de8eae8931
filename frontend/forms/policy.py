"""Settings of a source, a database or a table. Empty = inherited.

Every error stands at its field, all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from core.errors import InvalidRequest
from frontend.forms.quantities import QuantityField
from frontend.forms.schedules import INHERIT, WHEN, ScheduleFields, schedule_initial
from frontend.reading.policy import level_words
from frontend.reading.schedules import schedule_words
from frontend.templatetags.figures import duration, size
from ingest.pipelines.policies.policy import DEFAULT, KEYS, NEW_TABLES, Effective
from ingest.pipelines.policies.schedule import parse_schedule
from ingest.planning.drift import SCHEMA_POLICIES

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True)
class Number:
    """unit: of the value, for people: "s", "bytes", or "" """

    key: str
    label: StrOrPromise
    help: StrOrPromise
    unit: str = ""
    is_whole: bool = True

    def field(self) -> forms.Field:
        said: dict[str, Any] = {
            "required": False,
            "label": self.label,
            "help_text": self.help,
        }
        if self.unit:
            return QuantityField(unit=self.unit, is_whole=self.is_whole, **said)
        return forms.IntegerField(**said) if self.is_whole else forms.FloatField(**said)


@dataclass(frozen=True, slots=True)
class FieldGroup:
    title: StrOrPromise
    fields: list[forms.BoundField]

    @property
    def is_used(self) -> bool:
        """Something is set here, or wrong: it is shown at once."""
        return any(one.value() not in (None, "") or one.errors for one in self.fields)


COMPACTION = _("Compaction")
GROUPS: tuple[tuple[StrOrPromise, tuple[Number, ...]], ...] = (
    (
        _("Reading and lag"),
        (
            Number("lag_seconds", _("Safety lag"), _("How far syncs stay "
                   "behind the source's clock."), "s", is_whole=False),
            Number("late_after_seconds", _("Late after"), _("Behind its "
                   "schedule; then the table counts as late."), "s"),
        ),
    ),
    (
        _("Log capture"),
        (
            Number("freshness_seconds", _("Fresh within"), _("Within which "
                   "changes of the source's log shall be in the lake."), "s",
                   is_whole=False),
            Number("max_waiting_bytes", _("Waiting log, at most"), _("Of the log, for "
                   "a table that does not go on."), "bytes"),
            Number("max_waiting_seconds", _("Waiting time, at most"), _("Then a "
                   "table that does not go on needs a resync."), "s"),
            Number("keep_changes_seconds", _("Keep changes for"), _("So long "
                   "its changes can be read one by one."), "s"),
        ),
    ),
    (
        _("Verification"),
        (
            Number("verify_every", _("Verify every"), _("Compares source and "
                   "lake automatically; 0 switches off what a level above asks for."),
                   "s"),
            Number("verify_rows_per_second", _("Rows a second, at most"), _("What an "
                   "automatic verification reads; 0 is as fast as it goes.")),
        ),
    ),
    (
        COMPACTION,
        (
            Number("max_write_amplification", _("Write amplification, at most"),
                   _("Bytes written per byte changed."), is_whole=False),
            Number("compact_after", _("Commits, from"),
                   _("Since the last compaction.")),
            Number("compact_log_bytes", _("Log files, from"), "", "bytes"),
            Number("compact_log_ratio", _("Log bytes per base byte, from"), "",
                   is_whole=False),
            Number("compact_log_age_seconds", _("Oldest log file, from"), "", "s"),
            Number("stuck_after_seconds", _("Stuck after"), _("Then "
                   "unfinished work counts as waiting for too long."), "s"),
        ),
    ),
)  # fmt: skip
NUMBERS = {number.key: number for _, group in GROUPS for number in group}
_SCHEMA = {
    "follow": _("Appear with the next sync"),
    "ask": _("Wait for approval"),
    "ignore": _("Are left out"),
}
_NEW = {
    "join": _("Join the onboarding"),
    "ask": _("Wait for approval"),
    "ignore": _("Are left out"),
}
_RESYNC = {"ask": _("Waits for a decision"), "auto": _("Begins automatically")}
INHERITED = _("Inherited")
# Of settings that are no number.
_TITLES = {
    "schedule": _("Schedule"),
    "maintenance_window": _("Maintenance window"),
    "compact_driver": _("Own driver of compactions"),
    "schema_changes": _("Columns added at the source"),
    "new_tables": _("New tables that an onboarding's pattern means"),
    "resync": _("A resync that is needed"),
}


class PolicyForm(ScheduleFields):
    """given: what this level gives now. above: what counts without it."""

    when = forms.ChoiceField(
        choices=[(INHERIT, INHERITED), *WHEN[1:]], label=_("Syncs run")
    )
    quiet_from = forms.CharField(
        max_length=5,
        label=_("From"),
        help_text=_("A time of day, such as 22:00."),
    )
    quiet_to = forms.CharField(
        max_length=5,
        label=_("To"),
        help_text=_("If earlier than From, the window runs past midnight."),
    )
    quiet_timezone = forms.CharField(
        max_length=60,
        label=_("Time zone"),
        widget=forms.TextInput(attrs={"placeholder": "UTC"}),
    )
    driver_memory = forms.CharField(
        max_length=10,
        label=_("Own driver's memory"),
        help_text=_("Such as 4g; empty: no driver of its own."),
    )
    driver_cores = forms.IntegerField(
        min_value=1, max_value=1000, label=_("Own driver's cores")
    )
    schema_changes = forms.ChoiceField(
        label=_TITLES["schema_changes"],
        choices=[("", INHERITED), *((name, _SCHEMA[name]) for name in SCHEMA_POLICIES)],
    )
    new_tables = forms.ChoiceField(
        label=_TITLES["new_tables"],
        choices=[("", INHERITED), *((name, _NEW[name]) for name in NEW_TABLES)],
    )
    resync = forms.ChoiceField(
        label=_TITLES["resync"],
        choices=[("", INHERITED), *_RESYNC.items()],
    )

    def __init__(
        self,
        *args: Any,
        given: Mapping[str, Any],
        above: Effective,
        is_of_table: bool,
        **kwargs: Any,
    ) -> None:
        kwargs["initial"] = _initial(given)
        super().__init__(*args, **kwargs)
        self.given, self.above = given, above
        for number in NUMBERS.values():
            self.fields[number.key] = number.field()
            shown = self.fields[number.key].widget.attrs
            shown["placeholder"] = self._inherited(number.key)
        if is_of_table:
            del self.fields["new_tables"]
        for key in {"schema_changes", "new_tables", "resync"} & self.fields.keys():
            field: Any = self.fields[key]
            inherited = gettext("Inherited: %(value)s")
            first = ("", inherited % {"value": self._inherited(key)})
            field.choices = [first, *field.choices[1:]]

    def _inherited(self, key: str) -> str:
        """What counts when this level says nothing, and which level says so."""
        origin = self.above.origins[key]
        value = _described(key, self.above.values[key])
        said = {"value": value, "level": level_words(origin)}
        if origin == DEFAULT:
            return gettext("%(value)s, default") % said
        return gettext("%(value)s, from %(level)s") % said

    @property
    def groups(self) -> list[FieldGroup]:
        """With the driver's size among what compaction takes."""
        found = [(title, [self[n.key] for n in group]) for title, group in GROUPS]
        found[-1][1].extend([self["driver_memory"], self["driver_cores"]])
        return [FieldGroup(title, fields) for title, fields in found]

    @property
    def has_window(self) -> bool:
        own = [self[name] for name in ("quiet_from", "quiet_to", "quiet_timezone")]
        return FieldGroup("", own).is_used

    @property
    def overrides(self) -> list[tuple[str, str]]:
        """What this level gives, and what that takes the place of."""
        return [
            (f"{_title(key)}: {_described(key, value)}", self._inherited(key))
            for key, value in self.given.items()
        ]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        for key, value in self._values().items():
            if value is None or self._field_of(key) in self.errors:
                continue
            try:
                KEYS[key](value, f"/{key}")
            except InvalidRequest as refused:
                for one in refused.facts["errors"]:  # type: ignore[attr-defined]
                    part = one["pointer"].rpartition("/")[2]
                    self.add_error(self._field_of(key, part), one["detail"])
        return data

    def change(self) -> dict[str, Any]:
        """The merge patch: what is another value than before; None takes one back."""
        values = self._values()
        return {k: v for k, v in values.items() if v != self.given.get(k)}

    def _values(self) -> dict[str, Any]:
        data = self.cleaned_data
        values: dict[str, Any] = {key: data.get(key) for key in NUMBERS}
        start, end = data.get("quiet_from", ""), data.get("quiet_to", "")
        zone = data.get("quiet_timezone", "") or "UTC"
        quiet = {"from": start, "to": end, "timezone": zone}
        memory, cores = data.get("driver_memory", ""), data.get("driver_cores")
        driver = {"memory": memory, "cores": cores or 1}
        if "when" in self.fields and not self.errors:
            values["schedule"] = self.schedule
        return values | {
            "maintenance_window": quiet if start or end else None,
            "compact_driver": driver if memory else None,
            "schema_changes": data.get("schema_changes") or None,
            "new_tables": data.get("new_tables") or None,
            "resync": data.get("resync") or None,
        }

    def _field_of(self, key: str, part: str = "") -> str:
        if key == "maintenance_window":
            return f"quiet_{part}" if part in {"to", "timezone"} else "quiet_from"
        if key == "compact_driver":
            return "driver_cores" if part == "cores" else "driver_memory"
        return "when" if key == "schedule" else key


def _initial(given: Mapping[str, Any]) -> dict[str, Any]:
    quiet = given.get("maintenance_window") or {}
    driver = given.get("compact_driver") or {}
    return {
        **{key: given.get(key) for key in NUMBERS},
        **{f"quiet_{name}": value for name, value in quiet.items()},
        **{f"driver_{name}": value for name, value in driver.items()},
        "schema_changes": given.get("schema_changes", ""),
        "new_tables": given.get("new_tables", ""),
        "resync": given.get("resync", ""),
        **schedule_initial(given.get("schedule")),
    }


def _title(key: str) -> StrOrPromise:
    return NUMBERS[key].label if key in NUMBERS else _TITLES[key]


def _described(key: str, value: Any) -> str:
    if key == "schedule":
        return schedule_words(parse_schedule(value))
    if key == "maintenance_window":
        if not value:
            return gettext("at any time")
        text = gettext("%(from)s to %(to)s, %(timezone)s")
        return text % {name: str(value[name]) for name in ("from", "to", "timezone")}
    if key == "compact_driver":
        if not value:
            return gettext("no own driver")
        cores = ngettext("%(count)s core", "%(count)s cores", value["cores"])
        return f"{value['memory']}, {cores % {'count': value['cores']}}"
    if key == "schema_changes":
        return str(_SCHEMA[value]).lower()
    if key == "new_tables":
        return str(_NEW[value]).lower()
    if key == "resync":
        return str(_RESYNC[value]).lower()
    unit = NUMBERS[key].unit
    if unit == "s":
        return duration(value) if value else gettext("off")
    return size(value) if unit == "bytes" else f"{value:g}"
