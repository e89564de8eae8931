"""Reply bodies for the OpenAPI document; `catalog.api.bodies` makes the real ones.

A test compares the two, field by field.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from drf_spectacular.utils import extend_schema_field, inline_serializer
from rest_framework import serializers as s


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


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string"}]})
class Count(s.Field[Any, Any, Any, Any]):
    """A number, as a string beyond 2^53."""


class Problem(s.Serializer[Any]):
    type = s.CharField()
    title = s.CharField()
    status = s.IntegerField()
    detail = s.CharField()
    code = s.CharField()
    hint = s.CharField()
    request_id = s.CharField()
    errors: Any = s.ListField(child=s.DictField())


class Limits(s.Serializer[Any]):
    page_size_default = s.IntegerField()
    page_size_max = s.IntegerField()
    idempotency_seconds = s.IntegerField()
    body_bytes_max = s.IntegerField()


class Capabilities(s.Serializer[Any]):
    kinds = s.ListField(child=s.CharField())
    captures = s.ListField(child=s.CharField())
    privileges = s.ListField(child=s.CharField())
    roles = s.ListField(child=s.CharField())
    logins = s.ListField(child=s.CharField())
    statements = s.BooleanField()
    schedules = s.ListField(child=s.CharField())
    job_events = s.BooleanField()
    result_formats = s.ListField(child=s.CharField())
    verify = s.BooleanField()
    repairs = s.ListField(child=s.CharField())
    alert_targets = s.ListField(child=s.CharField())


class ActionField(s.Serializer[Any]):
    name = s.CharField()
    kind = s.CharField(help_text="flag, whole, text, choice or instant")
    is_required = s.BooleanField()


class TableAction(s.Serializer[Any]):
    """What can be requested for a lake table."""

    name = s.CharField()
    title = s.CharField()
    path = s.CharField(help_text="a POST starts it")
    does = s.CharField()
    blocks = s.CharField(help_text="what waits while it runs")
    undo = s.CharField()
    privilege = s.CharField()
    states = s.ListField(
        child=s.CharField(), help_text="of the table, in which it is offered"
    )
    request = ActionField(many=True)
    is_repair = s.BooleanField(help_text="works on the lake alone, and has `dry_run`")


class GatewayAddress(s.Serializer[Any]):
    port = s.IntegerField()
    http_port = s.IntegerField(allow_null=True)
    tls = s.BooleanField()


class Caller(s.Serializer[Any]):
    name = s.CharField()
    groups = s.ListField(child=s.CharField())
    is_admin = s.BooleanField()


class Config(s.Serializer[Any]):
    release = s.IntegerField()
    versions = s.DictField(child=s.CharField())
    limits = Limits()
    capabilities = Capabilities()
    table_actions = TableAction(many=True)
    gateway = GatewayAddress()
    user = Caller()


class Datasource(s.Serializer[Any]):
    name = s.CharField()
    kind = s.CharField()
    host = s.CharField()
    port = s.IntegerField()
    database = s.CharField()
    username = s.CharField()
    has_password = s.BooleanField()
    tls = s.CharField()
    options = s.DictField()
    version = s.IntegerField()
    table_count = s.IntegerField()
    created_at = s.DateTimeField()
    updated_at = s.DateTimeField()
    tested_at = s.DateTimeField(allow_null=True)
    test_result = s.JSONField(allow_null=True)
    discovered_at = s.DateTimeField(allow_null=True)


class KindOf(s.Serializer[Any]):
    kind = s.CharField()
    title = s.CharField()
    is_available = s.BooleanField()
    release = s.IntegerField()
    schema = s.DictField(allow_null=True)


class Kinds(s.Serializer[Any]):
    items = KindOf(many=True)


class Database(s.Serializer[Any]):
    name = s.CharField()
    datasource = s.CharField()
    qualified_name = s.CharField()
    discovered_at = s.DateTimeField(allow_null=True)


class Column(s.Serializer[Any]):
    name = s.CharField()
    source_name = s.CharField()
    type = s.CharField()
    source_type = s.CharField()
    nullable = s.BooleanField()
    key = s.IntegerField()
    comment = s.CharField()


class Index(s.Serializer[Any]):
    type = s.CharField()
    buckets = s.IntegerField()


class LastCommit(s.Serializer[Any]):
    instant = s.CharField()
    position = s.CharField(allow_null=True)
    epoch = Count(allow_null=True)
    at = s.DateTimeField(allow_null=True)


class Names(s.Serializer[Any]):
    lake = s.CharField(allow_null=True)
    jdbc = s.CharField(allow_null=True)


class Sync(s.Serializer[Any]):
    """What a source's table feeds. lake_table: its id, once it is approved."""

    state = s.CharField()
    reason = s.CharField(allow_blank=True)
    lake_table = s.IntegerField(allow_null=True)


class Table(s.Serializer[Any]):
    id = s.IntegerField()
    datasource = s.CharField()
    database = s.CharField()
    name = s.CharField()
    source_name = s.CharField()
    qualified_name = s.CharField()
    kind = s.CharField()
    comment = s.CharField()
    columns = Column(many=True)
    record_key = s.ListField(child=s.CharField())
    cursor = s.CharField(allow_null=True)
    partition_by = s.ListField(child=s.CharField())
    table_type = s.CharField(allow_null=True)
    index = Index(allow_null=True)
    updates = s.CharField(allow_null=True, help_text="full or partial; of lake tables")
    status = s.CharField()
    status_reason = s.CharField()
    sync = Sync(allow_null=True)
    lag_seconds = s.FloatField(allow_null=True)
    last_commit = LastCommit(allow_null=True)
    onboarding = s.UUIDField(allow_null=True)
    names = Names()
    schema_version = s.IntegerField()
    estimated_rows = Count(allow_null=True, help_text="null: the source never counted")
    is_queryable = s.BooleanField()


class Match(s.Serializer[Any]):
    field = s.CharField(help_text="name, database, column or comment")
    text = s.CharField()


class FoundTable(Table):
    match = Match(allow_null=True, help_text="what `q` found it by")


class TableSchema(s.Serializer[Any]):
    table = s.IntegerField()
    version = s.IntegerField()
    columns = Column(many=True)


class SchemaChange(s.Serializer[Any]):
    kind = s.CharField()
    column = s.CharField(help_text="its name at the source; empty for the key")
    before = s.CharField()
    after = s.CharField()
    is_breaking = s.BooleanField(help_text="a person or a re-sync has to decide")
    text = s.CharField()


class SchemaStep(s.Serializer[Any]):
    version = s.IntegerField()
    since = s.DateTimeField()
    columns = s.IntegerField()
    changes = SchemaChange(many=True)


class Progress(s.Serializer[Any]):
    phase = s.CharField()
    done = Count()
    total = Count(allow_null=True)
    unit = s.CharField()


class Failure(s.Serializer[Any]):
    code = s.CharField()
    message = s.CharField()
    hint = s.CharField()


class Job(s.Serializer[Any]):
    id = s.UUIDField()
    kind = s.CharField()
    subject = s.CharField()
    state = s.CharField()
    progress = Progress()
    reason = s.CharField()
    error = Failure(allow_null=True)
    attempts = s.IntegerField()
    requested_by = s.CharField()
    created_at = s.DateTimeField()
    started_at = s.DateTimeField(allow_null=True)
    finished_at = s.DateTimeField(allow_null=True)


class User(s.Serializer[Any]):
    name = s.CharField()
    groups = s.ListField(child=s.CharField())
    is_admin = s.BooleanField()
    is_active = s.BooleanField()
    created_at = s.DateTimeField()
    last_login = s.DateTimeField(allow_null=True)


class Via(s.Serializer[Any]):
    id = s.IntegerField()
    principal = s.CharField()
    privilege = s.CharField(allow_null=True)
    role = s.CharField(allow_null=True)
    on = s.CharField()


class Right(s.Serializer[Any]):
    privilege = s.CharField()
    allowed = s.BooleanField()
    reason = s.CharField()
    via = Via(many=True)


class EffectiveRights(s.Serializer[Any]):
    principal = s.CharField()
    groups = s.ListField(child=s.CharField())
    is_active = s.BooleanField()
    is_admin = s.BooleanField()
    on = s.CharField()
    privileges = Right(many=True)


class Grant(s.Serializer[Any]):
    id = s.IntegerField()
    principal = s.CharField()
    privilege = s.CharField(allow_null=True)
    role = s.CharField(allow_null=True)
    on = s.CharField()
    granted_by = s.CharField()
    granted_at = s.DateTimeField()


class Token(s.Serializer[Any]):
    id = s.IntegerField()
    name = s.CharField()
    user = s.CharField()
    hint = s.CharField()
    created_at = s.DateTimeField()
    expires_at = s.DateTimeField(allow_null=True)
    last_used_at = s.DateTimeField(allow_null=True)


class TokenOnce(Token):
    token = s.CharField(help_text="shown this once")


class AuditEntry(s.Serializer[Any]):
    id = s.IntegerField()
    at = s.DateTimeField()
    actor = s.CharField()
    action = s.CharField()
    object = s.CharField()
    door = s.CharField()
    is_allowed = s.BooleanField()
    address = s.CharField()
    request_id = s.CharField()
    facts = s.DictField()
