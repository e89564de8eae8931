"""Replies about what the catalog holds. Add members, never rename or remove one.

Secrets are in no reply.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers as s

from catalog.api.reply import Body, Count, Instant, OrNull, Reply, Stored, Texts, of
from catalog.discovery.store import DISCOVERED
from catalog.models import SchemaVersion
from catalog.models import Table as TableRow
from catalog.names import LAKE, join_name
from catalog.schema.diff import columns_as_json, columns_from_json
from catalog.selectors.facts import TableFacts
from catalog.sources.kinds import json_schema
from core.sentences import COLON, STOP, Sentence, joined, restored, without_origins


@cache
def page_of(item: type[s.Serializer[Any]]) -> s.Serializer[Any]:
    """`{items, next_page_token}` of these."""
    return inline_serializer(
        name=f"{item.__name__}Page",
        fields={
            "items": item(many=True),
            "next_page_token": s.CharField(allow_null=True),
        },
    )


class Problem(Reply):
    type = s.CharField()
    title = s.CharField()
    status = s.IntegerField()
    detail = s.CharField()
    code = s.CharField()
    hint = s.CharField()
    request_id = s.CharField()
    errors: Any = s.ListField(child=s.DictField())


class Limits(Reply):
    page_size_default = s.IntegerField()
    page_size_max = s.IntegerField()
    idempotency_seconds = s.IntegerField()
    body_bytes_max = s.IntegerField()


class Capabilities(Reply):
    kinds = Texts()
    captures = Texts()
    privileges = Texts()
    roles = Texts()
    logins = Texts()
    statements = s.BooleanField()
    schedules = Texts()
    job_events = s.BooleanField()
    result_formats = Texts()
    verify = s.BooleanField()
    repairs = Texts()
    alert_targets = Texts()


class ActionField(Reply):
    name = s.CharField()
    kind = s.CharField(help_text="flag, whole, text, choice or instant")
    is_required = s.BooleanField()


class TableAction(Reply):
    """What can be requested for a lake table."""

    name = s.CharField()
    title = s.CharField()
    path = s.CharField(help_text="a POST starts it")
    does = s.CharField()
    blocks = s.CharField(help_text="what waits while it runs")
    undo = s.CharField()
    privilege = s.CharField()
    states = Texts(help_text="of the table, in which it is offered")
    request = ActionField(many=True)
    is_repair = s.BooleanField(help_text="works on the lake alone, and has `dry_run`")


class GatewayAddress(Reply):
    port = s.IntegerField()
    http_port = s.IntegerField()
    tls = s.BooleanField()


class Caller(Reply):
    name = s.CharField()
    groups = Texts()
    is_admin = s.BooleanField()


class Config(Reply):
    versions = s.DictField(child=s.CharField())
    limits = Limits()
    capabilities = Capabilities()
    table_actions = TableAction(many=True)
    gateway = GatewayAddress()
    user = Caller()


OWNER = "who answers for it: user:<name> or group:<name>"


class Datasource(Reply):
    name = s.CharField()
    kind = s.CharField()
    host = s.CharField()
    port = s.IntegerField()
    database = s.CharField()
    username = s.CharField()
    has_password = of(s.BooleanField(), lambda row: bool(row.secret))
    needs_password = s.BooleanField()
    tls = s.CharField()
    options = s.DictField()
    owner = OrNull(help_text=OWNER)
    tags = Texts()
    version = s.IntegerField()
    table_count = s.IntegerField()
    created_at = Instant()
    updated_at = Instant()
    tested_at = Instant(allow_null=True)
    test_result = of(
        s.JSONField(allow_null=True),
        lambda row: row.test_result and without_origins(row.test_result),
    )
    discovered_at = Instant(allow_null=True)


class KindOf(Reply):
    kind = s.CharField(source="name")
    title = s.CharField()
    schema = of(s.DictField(), lambda kind: json_schema(kind))


class Database(Reply):
    name = s.CharField()
    datasource = s.CharField(source="datasource.name")
    qualified_name = of(
        s.CharField(), lambda row: join_name(row.datasource.name, row.name)
    )
    discovered_at = Instant(allow_null=True)


class Column(Stored):
    name = s.CharField()
    source_name = s.CharField()
    type = s.CharField()
    source_type = s.CharField()
    nullable = s.BooleanField()
    key = s.IntegerField()
    comment = s.CharField()


class Index(Reply):
    type = of(s.CharField(), lambda table: "BUCKET")
    buckets = s.IntegerField()


class LastCommit(Reply):
    instant = s.CharField(source="last_commit_instant")
    position = s.CharField(allow_null=True)
    epoch = Count(allow_null=True, source="last_commit_epoch")
    at = Instant(allow_null=True, source="last_commit_at")

    @staticmethod
    def position_of(table: TableFacts) -> str | None:
        """Positions are strings; a stored {"from", "to"} shows where it has got to."""
        position = table.last_commit_position
        if position is None or isinstance(position, str):
            return position
        if isinstance(position, dict) and isinstance(position.get("to"), str):
            return str(position["to"])
        return json.dumps(position, separators=(",", ":"), ensure_ascii=False)


# How to name the data in queries; null while there is no lake table.
class Names(Reply):
    lake = s.CharField(allow_null=True)
    jdbc = s.CharField(allow_null=True)

    @staticmethod
    def lake_of(table: TableFacts) -> str | None:
        name = Names.jdbc_of(table)
        return f"{LAKE}.{name}" if name else None

    @staticmethod
    def jdbc_of(table: TableFacts) -> str | None:
        if table.kind == TableRow.LAKE:
            return join_name(table.database, table.name)
        return table.lake_table or None


class Sync(Stored):
    """What a source's table feeds. lake_table: its id, once it is approved."""

    state = s.CharField()
    reason = s.CharField(allow_blank=True)
    lake_table = s.IntegerField(allow_null=True)


class Table(Reply):
    id = s.IntegerField()
    datasource = s.CharField()
    database = s.CharField()
    name = s.CharField()
    source_name = s.CharField()
    qualified_name = of(
        s.CharField(),
        lambda table: join_name(table.datasource, table.database, table.name),
    )
    kind = s.CharField()
    comment = s.CharField()
    owner = OrNull(help_text=OWNER)
    tags = Texts()
    columns = Column(many=True)
    record_key = Texts()
    cursor = OrNull()
    partition_by = Texts()
    # every table of the lake has both
    table_type = of(OrNull(), lambda table: "MERGE_ON_READ" if table.buckets else None)
    index = of(Index(allow_null=True), lambda table: table if table.buckets else None)
    updates = s.CharField(allow_null=True, help_text="full or partial; of lake tables")
    status = s.CharField()
    status_reason = s.CharField()
    capture = OrNull(help_text="log, timestamp or snapshot; null: not synced")
    sync = Sync(allow_null=True)
    lag_seconds = s.FloatField(allow_null=True)
    last_commit = of(
        LastCommit(allow_null=True),
        lambda table: table if table.last_commit_instant else None,
    )
    onboarding = s.UUIDField(allow_null=True)
    names = of(Names(), lambda table: table)
    schema_version = s.IntegerField()
    estimated_rows = Count(allow_null=True, help_text="null: the source never counted")
    is_queryable = s.BooleanField()

    @staticmethod
    def updates_of(table: TableFacts) -> str | None:
        if table.kind != TableRow.LAKE:
            return None
        return "partial" if table.partial_update_mode else "full"

    @staticmethod
    def status_reason_of(table: TableFacts) -> str:
        if table.status != DISCOVERED:
            return table.status_reason or _synced_how(table)
        # which columns are hidden takes nothing from that
        return joined((_synced_how(table), table.status_reason), STOP)

    @staticmethod
    def lag_seconds_of(table: TableFacts) -> float | None:
        """How old the newest fully synced state is; None before the first snapshot."""
        if table.caught_up_at is None:
            return None
        age = datetime.now(UTC) - table.caught_up_at
        return round(max(0.0, age.total_seconds()), 1)


def _synced_how(table: TableFacts) -> str:
    """Of a source's table, whose own status says nothing of its sync."""
    if not table.sync:
        return ""
    state, reason = table.sync["state"], restored(table.sync["reason"])
    if table.lake_table:
        message = Sentence(
            "synced as lake.%(table)s, which is %(state)s",
            table=table.lake_table,
            state=Sentence(state),
        )
    else:
        message = Sentence(
            "its plan is %(state)s: see /api/v1/onboardings/%(id)s",
            state=Sentence(state),
            id=table.onboarding,
        )
    return joined([message, reason], COLON)


class Match(Reply):
    field = s.CharField(help_text="name, database, column or comment")
    text = s.CharField()


class ActionOfTable(Reply):
    """One of the `table_actions` of `GET /config`."""

    name = s.CharField()
    is_possible = s.BooleanField()
    reason = s.CharField(help_text="why it is not possible now; empty when it is")


class TableDetail(Table):
    table_actions = ActionOfTable(
        many=True, help_text="what the caller may request now; none of a source's"
    )


class FoundTable(Table):
    match = Match(allow_null=True, help_text="what `q` found it by")


class TableSchema(Reply):
    table = s.IntegerField()
    version = s.IntegerField()
    columns = Column(many=True)

    @staticmethod
    def now(table: TableFacts) -> Body:
        about = {"table": table.id, "version": table.schema_version}
        return TableSchema.body({**about, "columns": table.columns})

    @staticmethod
    def former(row: SchemaVersion) -> Body:
        columns = columns_as_json(columns_from_json(row.columns))
        about = {"table": row.table_id, "version": row.version}
        return TableSchema.body({**about, "columns": columns})


class SchemaChange(Reply):
    kind = s.CharField()
    column = s.CharField(help_text="its name at the source; empty for the key")
    before = s.CharField()
    after = s.CharField()
    is_breaking = s.BooleanField(help_text="a person or a resync has to decide")
    text = of(s.CharField(), lambda change: str(change))


class SchemaStep(Reply):
    version = s.IntegerField()
    since = Instant()
    columns = s.IntegerField()
    changes = SchemaChange(many=True)


class Progress(Reply):
    phase = s.CharField()
    done = Count()
    total = Count(allow_null=True)
    unit = s.CharField()


class Failure(Reply):
    code = s.CharField(source="error_code")
    message = s.CharField(source="error_message")
    hint = s.CharField(source="error_hint")


class Job(Reply):
    id = s.UUIDField()
    kind = s.CharField()
    subject = s.CharField()
    state = s.CharField()
    progress = of(Progress(), lambda job: job)
    reason = s.CharField()
    error = of(
        Failure(allow_null=True),
        lambda job: job if job.error_code or job.error_message else None,
    )
    attempts = s.IntegerField()
    requested_by = s.CharField()
    created_at = Instant()
    started_at = Instant(allow_null=True)
    finished_at = Instant(allow_null=True)
