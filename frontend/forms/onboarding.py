"""What to carry and how: patterns, picked tables, and the choices of one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from ingest.models import TableOnboarding
from ingest.planning.cursor import CURSOR_TYPES
from ingest.planning.facts import ROW_HASH, Choices
from ingest.schedule import (
    LONGEST_CRON,
    MAX_SECONDS,
    Schedule,
    parse_schedule,
    schedule_to_json,
)

CAPTURES = [
    ("timestamp", "Kept fresh by a timestamp column"),
    ("snapshot", "Loaded once"),
]


class OnboardForm(forms.Form):
    capture = forms.ChoiceField(choices=CAPTURES, label="Capture")
    every_seconds = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_SECONDS,
        initial=30,
        label="A round every … seconds",
        help_text="Empty: as the source or its database has it, else by hand.",
    )
    cron = forms.CharField(
        required=False,
        max_length=LONGEST_CRON,
        label="Or by cron",
        help_text="Five fields, such as 30 2 * * MON-FRI; goes before the seconds.",
    )
    timezone = forms.CharField(
        required=False,
        max_length=60,
        label="Time zone of cron",
        help_text="Such as Europe/Berlin. Empty: UTC.",
    )
    target_database = forms.CharField(
        required=False,
        max_length=200,
        label="Lake database",
        help_text="Empty: derived from source and database names.",
    )
    include = forms.CharField(
        required=False,
        label="Include",
        help_text="One a line: public.*, public.order*, public.orders",
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    exclude = forms.CharField(
        required=False,
        label="Exclude",
        help_text="One a line, as above.",
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    selected = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        named = [*_lines(data.get("include")), *_lines(data.get("selected"))]
        if not named and not self.data.get("all_matching"):
            raise forms.ValidationError("Choose at least one table, or give a pattern.")
        return data

    def request_data(self, source: str, more: list[str]) -> dict[str, Any]:
        """The request as `ingest.requests.parse_request` takes it."""
        data = self.cleaned_data
        is_scheduled = data["capture"] == "timestamp"
        schedule = schedule_of(data) if is_scheduled else None
        include = [*_lines(data["include"]), *_lines(data["selected"]), *more]
        return {
            "datasource": source,
            "include": list(dict.fromkeys(include)),
            "exclude": _lines(data["exclude"]),
            "capture": data["capture"],
            "schedule": schedule_to_json(schedule),
            "target_database": data["target_database"] or None,
        }


def schedule_of(data: Mapping[str, Any]) -> Schedule | None:
    """What the fields say: cron before seconds, None when both are empty."""
    cron = str(data.get("cron") or "").strip()
    if cron:
        zone = str(data.get("timezone") or "").strip() or "UTC"
        return parse_schedule({"cron": cron, "timezone": zone})
    seconds = str(data.get("every_seconds") or "")
    if not seconds:
        return None
    number = int(seconds[:12]) if seconds.isascii() and seconds.isdigit() else 0
    return parse_schedule({"every_seconds": number})


KEYS = [
    ("", "As proposed"),
    ("columns", "These columns"),
    (ROW_HASH, "A hash of the whole row"),
]


UPDATES = [
    ("", "Full rows"),
    ("partial", "NULL means unchanged"),
]


class ChoicesForm(forms.Form):
    """Choices for one table. Column lists come from the source's columns."""

    key_kind = forms.ChoiceField(choices=KEYS, required=False, label="Record key")
    key_columns = forms.CharField(
        required=False,
        label="Key columns",
        help_text="Only with “These columns”: source names, one a line.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    cursor = forms.ChoiceField(required=False, label="Cursor")
    buckets = forms.IntegerField(
        required=False, min_value=1, max_value=4096, label="Buckets"
    )
    partition_by = forms.ChoiceField(
        required=False,
        label="Partitioned by",
        help_text="Only a column whose value never changes for a row.",
    )
    updates = forms.ChoiceField(
        choices=UPDATES,
        required=False,
        label="Updates",
        help_text="Full rows replace the lake's, NULLs included. Else a column that is "
        "NULL in a changed row keeps its value; only a re-sync sets it to NULL. Fixed "
        "for the table's life.",
    )
    exclude_columns = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, *args: Any, feed: TableOnboarding, **kwargs: Any) -> None:
        kwargs.setdefault("initial", _chosen(feed.plan))
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        columns = list(feed.source_table.columns.all())
        cursors = [c.source_name for c in columns if c.type in CURSOR_TYPES]
        choices: Any = [("", "As proposed"), *((n, n) for n in cursors)]
        parts: Any = [("", "As proposed"), *((c.source_name, c.source_name)
                                             for c in columns if c.type)]  # fmt: skip
        self.fields["partition_by"].choices = parts  # type: ignore[attr-defined]
        names: Any = [(c.source_name, _described(c)) for c in columns]
        self.fields["cursor"].choices = choices  # type: ignore[attr-defined]
        self.fields["exclude_columns"].choices = names  # type: ignore[attr-defined]

    def choices(self) -> Choices:
        data = self.cleaned_data
        key: Any = None
        if data["key_kind"] == ROW_HASH:
            key = ROW_HASH
        elif data["key_kind"] == "columns":
            key = tuple(_lines(data["key_columns"]))
        return Choices(
            record_key=key,
            cursor=data["cursor"] or None,
            buckets=data["buckets"],
            partition_by=(data["partition_by"],) if data["partition_by"] else (),
            exclude_columns=tuple(data["exclude_columns"]),
            updates=data["updates"] or None,
        )


def _chosen(plan: dict[str, Any]) -> dict[str, Any]:
    """What was chosen before, so that a new choice does not undo it."""
    proposals = plan.get("proposals", {})

    def value(name: str) -> Any:
        one = proposals.get(name) or {}
        return one.get("value") if one.get("is_chosen") else None

    key = value("record_key")
    return {
        "key_kind": ROW_HASH if key == ROW_HASH else "columns" if key else "",
        "key_columns": "\n".join(key) if isinstance(key, list) else "",
        "cursor": value("cursor") or "",
        "buckets": value("buckets"),
        "partition_by": next(iter(value("partition_by") or ()), ""),
        "exclude_columns": plan.get("excluded", []),
        "updates": "partial" if value("updates") == "partial" else "",
    }


def _described(column: Any) -> str:
    note = "" if column.type else ", not supported"
    return f"{column.source_name} ({column.source_type}{note})"


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]
