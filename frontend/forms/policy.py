"""Settings of a source, a database or a table. Empty = inherited.

Every error stands at its field, all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from core.errors import InvalidRequest
from frontend.forms.quantities import QuantityField
from frontend.forms.schedules import INHERIT, WHEN, ScheduleFields, schedule_initial
from frontend.reading.policy import (
    CHOICES,
    GROUPS,
    LABELS,
    NUMBERS,
    Number,
    described,
    label,
    level_words,
)
from ingest.pipelines.policies.policy import DEFAULT, KEYS, Effective

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True)
class FieldGroup:
    title: StrOrPromise
    fields: list[forms.BoundField]

    @property
    def is_used(self) -> bool:
        """Something is set here, or wrong: it is shown at once."""
        return any(one.value() not in (None, "") or one.errors for one in self.fields)


class PolicyForm(ScheduleFields):
    """given: what this level gives now. above: what counts without it."""

    when = forms.ChoiceField(
        choices=[(INHERIT, _("Inherited")), *WHEN[1:]], label=_("Syncs run")
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
        help_text=_("Such as 4g. Empty: inherited."),
    )
    driver_cores = forms.IntegerField(
        min_value=1, max_value=1000, label=_("Own driver's cores")
    )
    schema_changes = forms.ChoiceField(label=LABELS["schema_changes"])
    new_tables = forms.ChoiceField(label=LABELS["new_tables"])
    resync = forms.ChoiceField(label=LABELS["resync"])

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
        for key, number in NUMBERS.items():
            self.fields[key] = _number_field(number, self._inherited(key))
        inherited = self._inherited("compact_driver")
        self.fields["driver_memory"].widget.attrs["placeholder"] = inherited
        if is_of_table:
            del self.fields["new_tables"]
        for key in CHOICES.keys() & self.fields.keys():
            field: Any = self.fields[key]
            first = gettext("Inherited: %(value)s") % {"value": self._inherited(key)}
            field.choices = [("", first), *CHOICES[key].items()]

    def _inherited(self, key: str) -> str:
        """What counts when this level says nothing, and which level says so."""
        origin = self.above.origins[key]
        value = described(key, self.above.values[key])
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
            (f"{label(key)}: {described(key, value)}", self._inherited(key))
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


def _number_field(number: Number, inherited: str) -> forms.Field:
    shown: dict[str, Any] = {
        "required": False,
        "label": number.label,
        "help_text": number.help,
    }
    if number.unit:
        field: forms.Field = QuantityField(
            unit=number.unit, is_whole=number.is_whole, **shown
        )
    else:
        field = (forms.IntegerField if number.is_whole else forms.FloatField)(**shown)
    field.widget.attrs["placeholder"] = inherited
    return field
