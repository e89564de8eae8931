"""What to carry and how: patterns, picked tables, and choices for one table or many."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from core.translation import translated
from frontend.forms.optional import OptionalForm
from frontend.forms.schedules import INHERIT, WHEN, ScheduleFields, schedule_initial
from ingest.models import Pipeline
from ingest.pipelines.plan_overrides import Everywhere, chosen_in
from ingest.planning.as_text import can_be_text
from ingest.planning.cursor import CURSOR_TYPES
from ingest.planning.defaults import PlanDefaults
from ingest.planning.facts import ROW_HASH, TIMESTAMP, Capture, Choices
from ingest.planning.partitions import BY_DAY, PARTITION_TYPES

CAPTURES = [
    ("log", _("Kept fresh by the source's log")),
    ("timestamp", _("Kept fresh by a timestamp column")),
    ("snapshot", _("Snapshot once")),
]
OPEN = ("", _("By the log where possible, else by a timestamp column"))
PARTS = {*PARTITION_TYPES, *BY_DAY}
_NAMES = forms.Textarea(attrs={"rows": 2})


class DefaultsFields(OptionalForm):
    """What each of many tables gets that can have it; the others go by proposal."""

    wish_cursor = forms.CharField(
        label=_("Cursor columns"),
        help_text=_(
            "One column per line, in order of preference. Each table takes the first "
            "one it has."
        ),
        widget=_NAMES,
    )
    wish_exclude = forms.CharField(
        label=_("Columns left out"),
        help_text=_(
            "One column per line. These columns are excluded; key columns are always "
            "kept."
        ),
        widget=_NAMES,
    )
    wish_partition = forms.CharField(
        label=_("Partitioned by"),
        help_text=_("A column whose value never changes for a row."),
    )
    wish_buckets = forms.IntegerField(
        min_value=1,
        max_value=4096,
        label=_("Buckets"),
        help_text=_("Empty: by each table's size."),
    )
    wish_row_hash = forms.BooleanField(
        label=_("Tables without a key are keyed by a hash of the row")
    )
    wish_once = forms.BooleanField(
        label=_("Tables that cannot be synced incrementally are snapshotted once"),
    )

    @property
    def wish_given(self) -> bool:
        """Whether any was sent, so that what was filled in is not hidden."""
        return any(self.data.get(n) for n in self.fields if n.startswith("wish_"))

    @property
    def wish_boxes(self) -> list[forms.BoundField]:
        return [self["wish_row_hash"], self["wish_once"]]

    @property
    def defaults(self) -> PlanDefaults:
        data = self.cleaned_data
        partition = data["wish_partition"].strip()
        return PlanDefaults(
            cursors=tuple(_lines(data["wish_cursor"])),
            partition_by=(partition,) if partition else (),
            buckets=data["wish_buckets"],
            exclude_columns=tuple(_lines(data["wish_exclude"])),
            row_hash=data["wish_row_hash"],
            load_once=data["wish_once"],
        )


# members of a request's defaults whose fields have other names
WISHES = {"partition_by": "partition", "exclude_columns": "exclude"}


class OnboardForm(ScheduleFields, DefaultsFields):
    capture = forms.ChoiceField(
        choices=[OPEN, *CAPTURES],
        label=_("Capture"),
    )
    target_database = forms.CharField(
        max_length=200,
        label=_("Lake database"),
        help_text=_("Empty: derived from source and database names."),
    )
    include = forms.CharField(
        label=_("Include"),
        help_text=_("One pattern per line: public.*, public.order*, public.orders"),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    exclude = forms.CharField(
        label=_("Exclude"),
        help_text=_("One pattern per line, as above."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    shard_column = forms.CharField(
        max_length=200,
        label=_("Shard column"),
        help_text=_(
            "For sharded tables: each pattern, as shop_*.orders, becomes one lake"
            " table, and this column has what the star stands for."
        ),
    )
    selected = forms.CharField(widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        named = [*_lines(data.get("include")), *_lines(data.get("selected"))]
        if not named and not self.data.get("all_matching"):
            raise forms.ValidationError(
                gettext("Choose at least one table, or give a pattern.")
            )
        return data

    def request_data(self, source: str, more: list[str]) -> dict[str, Any]:
        """The request as `ingest.pipelines.requests.parse_request` takes it; of a form
        with errors, as much of it as is right."""
        get = self.cleaned_data.get
        is_scheduled = get("capture") in {"", TIMESTAMP} and not self.errors
        self.patterns = _lines(get("include"))
        include = [*self.patterns, *_lines(get("selected")), *more]
        return {
            "datasource": source,
            "include": list(dict.fromkeys(include)),
            "exclude": _lines(get("exclude")),
            "schedule": self.schedule if is_scheduled else None,
            "target_database": get("target_database") or None,
            "defaults": {} if self.errors else self.defaults.to_data(),
            **({"capture": get("capture")} if get("capture") else {}),
            "shards": {"column": shards} if (shards := get("shard_column")) else None,
        }

    def point_at(self, errors: object) -> bool:
        """Show a service's pointers at their fields; False when there are none."""
        found = errors if isinstance(errors, list) else []
        for each in found:
            field = self._field_at(str(each["pointer"]))
            self.add_error(field, translated(each["detail"]))
        return bool(found)

    def _field_at(self, pointer: str) -> str | None:
        """None for what a table says, whose name stands in the sentence."""
        first, *rest = pointer.strip("/").split("/")
        if first == "include":
            is_pattern = bool(rest) and int(rest[0]) < len(self.patterns)
            return "include" if is_pattern else None
        if first == "shards":
            return "shard_column"
        name = f"wish_{WISHES.get(rest[0], rest[0])}" if rest else first
        return name if name in self.fields else None


STAYS = ("", _("As it is for each of them"))


class ManyForm(ScheduleFields, DefaultsFields):
    """Choices for many tables of a plan; what is empty stays as it is."""

    capture = forms.ChoiceField(choices=[STAYS, *CAPTURES], label=_("Capture"))
    database = forms.CharField(
        max_length=200,
        label=_("Lake database"),
        help_text=_("Empty: as it is."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        when: Any = [STAYS, *WHEN]
        self.fields["when"].choices = when  # type: ignore[attr-defined]

    def given(self) -> Everywhere:
        data = self.cleaned_data
        own: dict[str, Any] | None = None
        if data["when"] == INHERIT:
            own = {"schedule": None}
        elif data["when"]:
            own = {"schedule": self.schedule}
        return Everywhere(
            defaults=self.defaults,
            capture=data["capture"] or None,
            own=own,
            database=data["database"].strip(),
        )


KEYS = [
    ("", _("As proposed")),
    ("columns", _("These columns")),
    (ROW_HASH, _("A hash of the whole row")),
]


UPDATES = [
    ("", _("Full rows")),
    ("partial", _("NULL means unchanged")),
]


class ChoicesForm(ScheduleFields):
    """Choices for one table. Column lists come from the source's columns."""

    capture = forms.ChoiceField(choices=CAPTURES, label=_("Capture"))
    lake = forms.CharField(
        max_length=300,
        label=_("Name in the lake"),
        help_text=_("database.table in lower case letters, digits and _."),
    )
    key_kind = forms.ChoiceField(choices=KEYS, label=_("Record key"))
    key_columns = forms.CharField(
        label=_("Key columns"),
        help_text=_("Only with “These columns”: source names, one a line."),
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    cursor = forms.ChoiceField(label=_("Cursor"))
    buckets = forms.IntegerField(min_value=1, max_value=4096, label=_("Buckets"))
    partition_by = forms.ChoiceField(
        label=_("Partitioned by"),
        help_text=_("Only a column whose value never changes for a row."),
    )
    updates = forms.ChoiceField(
        choices=UPDATES,
        label=_("Updates"),
        help_text=_(
            "Full rows replace the lake's, NULLs included. Else a column that is "
            "NULL in a changed row keeps its value; only a resync sets it to NULL. "
            "Fixed for the table's life."
        ),
    )
    as_text = forms.MultipleChoiceField(
        label=_("Synced as text"),
        help_text=_(
            "Text holds what the lake's types cannot: infinity, zero dates, NaN."
        ),
        widget=forms.CheckboxSelectMultiple,
    )
    exclude_columns = forms.MultipleChoiceField(
        label=_("Columns left out"),
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, *args: Any, pipeline: Pipeline, **kwargs: Any) -> None:
        kwargs.setdefault("initial", _chosen(pipeline))
        super().__init__(*args, **kwargs)
        columns = list(pipeline.source_table.columns.all())
        cursors = [c.source_name for c in columns if c.type in CURSOR_TYPES]
        choices: Any = [("", _("As proposed")), *((n, n) for n in cursors)]
        parts: Any = [c.source_name for c in columns if c.type in PARTS]
        parts = [("", _("As proposed")), *((name, name) for name in parts)]
        self.fields["partition_by"].choices = parts  # type: ignore[attr-defined]
        names: Any = [(c.source_name, _described(c)) for c in columns]
        self.fields["cursor"].choices = choices  # type: ignore[attr-defined]
        self.fields["exclude_columns"].choices = names  # type: ignore[attr-defined]
        fits = [c for c in columns if can_be_text(c.type)]
        texts: Any = [(c.source_name, _described(c)) for c in fits]
        self.fields["as_text"].choices = texts  # type: ignore[attr-defined]

    def choices(self) -> Choices:
        data = self.cleaned_data
        key: Any = None
        if data["key_kind"] == ROW_HASH:
            key = ROW_HASH
        elif data["key_kind"] == "columns":
            key = tuple(_lines(data["key_columns"]))
        capture: Capture | None = data["capture"] or None
        return Choices(
            record_key=key,
            cursor=data["cursor"] or None,
            buckets=data["buckets"],
            partition_by=(data["partition_by"],) if data["partition_by"] else (),
            exclude_columns=tuple(data["exclude_columns"]),
            as_text=tuple(data["as_text"]),
            lake=data["lake"].strip().removeprefix("lake.") or None,
            updates=data["updates"] or None,
            capture=capture,
        )

    def own(self, before: dict[str, Any]) -> dict[str, Any]:
        """The table's own settings: those of before with this schedule."""
        if "when" not in self.data:
            return before
        found = {k: v for k, v in before.items() if k != "schedule"}
        if self.schedule is not None and self.cleaned_data["capture"] == TIMESTAMP:
            found["schedule"] = self.schedule
        return found


def _chosen(pipeline: Pipeline) -> dict[str, Any]:
    """What was chosen before, so that a new choice does not undo it."""
    was = chosen_in(pipeline.plan)
    key = was.record_key
    return {
        "capture": pipeline.capture,
        "lake": f"{pipeline.plan.get('database', '')}.{pipeline.plan.get('name', '')}",
        "key_kind": ROW_HASH if key == ROW_HASH else "columns" if key else "",
        "key_columns": "\n".join(key) if isinstance(key, tuple) else "",
        "cursor": was.cursor or "",
        "buckets": was.buckets,
        "partition_by": next(iter(was.partition_by), ""),
        "exclude_columns": list(was.exclude_columns),
        "as_text": list(was.as_text),
        "updates": "partial" if was.updates == "partial" else "",
        **schedule_initial(pipeline.policy.get("schedule")),
    }


def _described(column: Any) -> str:
    if column.type:
        return f"{column.source_name} ({column.source_type})"
    text = gettext("%(name)s (%(type)s, not supported)")
    return text % {"name": column.source_name, "type": column.source_type}


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]
