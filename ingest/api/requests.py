"""Requests of ingestion.

`OnboardingNew` checks the shape of one, all mistakes at once, and
`ingest.pipelines.requests`, which takes those of pages and imports too, the meaning.
`PolicyChange` is the shape of what `ingest.pipelines.policies.policy` checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from rest_framework import serializers as s
from rest_framework.fields import empty

from catalog.api.serializers import Flag, Items, OneOf, Patch, Text, Whole
from core.json_values import below
from core.sentences import Sentence
from ingest.pipelines.requests import refuse
from ingest.planning.facts import Capture

CAPTURES = list(get_args(Capture))


class _NullIsAbsent:
    """null was always taken for nothing here, though no document says so."""

    def run_validation(self, data: Any = empty) -> Any:
        return super().run_validation(empty if data is None else data)  # type: ignore[misc]


class _Names(_NullIsAbsent, Items):
    child = Text(error_messages={"invalid": Sentence("expected a name")})


class _Tables(_NullIsAbsent, s.DictField):
    pass


class TableChoices(s.Serializer[Any]):
    """null = as proposed."""

    record_key = s.JSONField(
        required=False, allow_null=True, help_text='columns, or "row_hash"'
    )
    cursor = Text(required=False, allow_null=True)
    partition_by = _Names(required=False)
    buckets = Whole(required=False, allow_null=True)
    exclude_columns = _Names(required=False)
    as_text = _Names(required=False, help_text="columns that are synced as text")
    lake = Text(
        required=False,
        allow_null=True,
        help_text="database.table in the lake, or the table's name alone",
    )
    lake_name = Text(required=False, allow_null=True, help_text="the same as `lake`")
    updates = OneOf(
        choices=["full", "partial"],
        required=False,
        allow_null=True,
        help_text="partial: NULL in a changed row leaves the lake's value",
    )
    capture = OneOf(choices=CAPTURES, required=False, allow_null=True)
    schedule = s.JSONField(required=False, allow_null=True)


class TableDefaults(_NullIsAbsent, s.Serializer[Any]):
    """For every table of the request that can have it; null = as proposed."""

    record_key = OneOf(
        choices=["row_hash"],
        required=False,
        allow_null=True,
        help_text="for tables without a key",
    )
    cursor = _Names(
        required=False,
        help_text="names in order of preference; the first a table has is taken",
    )
    partition_by = _Names(required=False)
    buckets = Whole(required=False, allow_null=True)
    exclude_columns = _Names(required=False)
    otherwise = OneOf(
        choices=["snapshot"],
        required=False,
        allow_null=True,
        help_text="snapshot: tables that cannot be kept fresh are loaded once",
    )
    capture = OneOf(
        choices=CAPTURES,
        required=False,
        allow_null=True,
        help_text="the same as the request's own",
    )
    schedule = s.JSONField(
        required=False, allow_null=True, help_text="the same as the request's own"
    )


class ShardsAsked(s.Serializer[Any]):
    column = Text(help_text="a column that the tables do not have")


class OnboardingNew(s.Serializer[Any]):
    """What is checked of it at once is its shape; then its meaning, with the source."""

    datasource = Text()
    include = Items(
        child=Text(error_messages={"invalid": Sentence("expected a name")}),
        help_text="db.table, db.*, db.ord*, or *",
    )
    exclude = _Names(required=False)
    capture = OneOf(
        choices=CAPTURES,
        required=False,
        help_text="absent: each table by the log where that can be followed, else by"
        " timestamp; its plan says why",
    )
    schedule = s.JSONField(required=False, allow_null=True)
    target_database = Text(required=False, allow_null=True)
    tables = _Tables(child=TableChoices(), required=False)
    defaults = TableDefaults(required=False)
    shards = ShardsAsked(
        required=False,
        allow_null=True,
        help_text="each pattern of include means one lake table, as shop_*.orders does:"
        " what the star stands for is in this column, which is first in its key",
    )
    dry_run = Flag(required=False)
    approve = Flag(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name, choices in (self.initial_data.get("tables") or {}).items():
            _refuse_unknown(choices, TableChoices(), below("/tables", name))
        _refuse_unknown(self.initial_data.get("defaults"), TableDefaults(), "/defaults")
        for name, choices in (attrs.get("tables") or {}).items():
            at = f"{below('/tables', name)}/lake_name"
            _take(choices, "lake", choices.pop("lake_name", None), at)
        for name in ("capture", "schedule"):
            given = (attrs.get("defaults") or {}).pop(name, None)
            _take(attrs, name, given, f"/defaults/{name}")
        return attrs


def _take(attrs: dict[str, Any], name: str, given: Any, pointer: str) -> None:
    """`given` is another way to write the member `name`."""
    if given is None:
        return
    if attrs.get(name) not in (None, given):
        refuse(pointer, "'%(name)s' is given as something else, too", name=name)
    attrs[name] = given


def _refuse_unknown(
    given: Mapping[str, Any] | None, known: s.Serializer[Any], at: str
) -> None:
    """As `body_of` does for the members of the body itself."""
    for name in given or {}:
        if name not in known.fields:
            listed = ", ".join(sorted(known.fields))
            refuse(
                below(at, name),
                f"unknown field '{name}'; known: {listed}",
                code="unknown_field",
            )


class PolicyChange(Patch):
    """A merge patch: null takes a setting back."""

    schedule = s.JSONField()
    lag_seconds = s.FloatField()
    compact_after = s.IntegerField()
    compact_log_bytes = s.IntegerField()
    compact_log_ratio = s.FloatField()
    compact_log_age_seconds = s.FloatField()
    max_write_amplification = s.FloatField()
    stuck_after_seconds = s.FloatField()
    late_after_seconds = s.FloatField()
    verify_every = s.FloatField(help_text="seconds; 0 = only on request")
    verify_rows_per_second = s.IntegerField()
    maintenance_window = s.DictField(
        help_text='{"from": "22:00", "to": "06:00", "timezone": "UTC"}',
    )
    compact_driver = s.DictField(help_text='{"memory": "4g", "cores": 4}')
    schema_changes: Any = OneOf(
        choices=["follow", "ask", "ignore"],
        help_text="what becomes of columns that are added at the source",
    )
    new_tables: Any = OneOf(
        choices=["join", "ask", "ignore"],
        help_text="of a source or database: what becomes of tables that appear and that"
        " the pattern of an onboarding means",
    )
    resync: Any = OneOf(
        choices=["ask", "auto"],
        help_text="of a table that needs a resync: whether it begins automatically",
    )
    freshness_seconds = s.FloatField(
        help_text="of a table that follows a log: how soon its changes shall be there",
    )
    max_waiting_bytes = s.IntegerField(
        help_text="of a log: what may wait in the lake for a table that does not go on",
    )
    max_waiting_seconds = s.FloatField(help_text="the same, for how long")
    keep_changes_seconds = s.FloatField(
        help_text="of a table that follows a log: how long its changes can be read",
    )

    def get_fields(self) -> dict[str, Any]:
        found = super().get_fields()
        for field in found.values():
            field.allow_null = True
        return found


class CaptureStart(s.Serializer[Any]):
    begin_anew = s.BooleanField(
        default=False,
        help_text="go on with what there is where the log is lost, or another server"
        " answers; each table that is read from it needs a resync then",
    )
