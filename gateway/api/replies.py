"""Bodies of statements for the OpenAPI document.

`gateway.statement_service` makes the real ones.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s


class ResultColumn(s.Serializer[Any]):
    name = s.CharField()
    type = s.CharField()


class StatementError(s.Serializer[Any]):
    code = s.CharField(required=False)
    message = s.CharField()
    sql_state = s.CharField(allow_null=True)


class Statement(s.Serializer[Any]):
    id = s.UUIDField()
    state = s.CharField()
    columns = ResultColumn(many=True)
    rows_so_far = s.IntegerField()
    is_truncated = s.BooleanField()
    error = StatementError(allow_null=True)


class RunningStatement(s.Serializer[Any]):
    id = s.CharField()
    text = s.CharField()
    state = s.CharField()
    started_at = s.DateTimeField()


class Session(s.Serializer[Any]):
    """A session over HiveServer2. `engine` is null before its first statement."""

    id = s.UUIDField()
    user = s.CharField()
    address = s.CharField()
    client = s.CharField()
    database = s.CharField()
    opened_at = s.DateTimeField()
    idle_seconds = s.FloatField()
    engine = s.CharField(allow_null=True)
    statement = RunningStatement(allow_null=True, help_text="the one that runs now")


class ResultPage(s.Serializer[Any]):
    """Decimals, timestamps and integers beyond 2^53 are strings."""

    columns = ResultColumn(many=True)
    rows = s.ListField(child=s.ListField(child=s.JSONField(allow_null=True)))
    next_page_token = s.CharField(allow_null=True)
