"""Replies about statements and sessions, of what the gateway process says of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from catalog.api.reply import Body, Instant, Reply


class ResultColumn(Reply):
    name = s.CharField()
    type = s.CharField()


class StatementError(Reply):
    code = s.CharField()
    message = s.CharField()
    sql_state = s.CharField(allow_null=True)


class StatementProgress(Reply):
    tasks_done = s.IntegerField()
    tasks = s.IntegerField()
    stages_done = s.IntegerField()
    stages = s.IntegerField()
    rows = s.IntegerField(
        allow_null=True, help_text="read so far; null where rules keep rows back"
    )
    bytes = s.IntegerField(allow_null=True)


class Statement(Reply):
    id = s.UUIDField()
    state = s.CharField()
    columns = ResultColumn(many=True)
    rows_so_far = s.IntegerField()
    is_truncated = s.BooleanField()
    waits_for = s.CharField(
        allow_null=True,
        help_text="why no engine has it yet, while it is PENDING; then why none of its"
        " tasks goes on, as when a live source has no connection left for its user",
    )
    error = StatementError(allow_null=True)
    progress = StatementProgress(allow_null=True, help_text="while it runs")


class RunningStatement(Reply):
    id = s.CharField()
    text = s.CharField()
    state = s.CharField()
    started_at = Instant()


class Session(Reply):
    """A session over HiveServer2. `engine` is null before its first statement."""

    id = s.UUIDField()
    user = s.CharField()
    address = s.CharField()
    client = s.CharField()
    database = s.CharField()
    opened_at = Instant()
    idle_seconds = s.FloatField()
    engine = s.CharField(allow_null=True)
    statement = RunningStatement(allow_null=True, help_text="the one that runs now")


# Values are JSON already, and there are many: none of them is touched.
class _Rows(s.ListField):
    child = s.ListField(child=s.JSONField(allow_null=True))

    def to_representation(self, data: Any) -> Any:
        return data


class ResultPage(Reply):
    """Decimals, timestamps and integers beyond 2^53 are strings. A page ends at 500
    rows or 1 MiB of them, whichever comes first."""

    columns = ResultColumn(many=True)
    rows = _Rows()
    next_page_token = s.CharField(allow_null=True)

    @staticmethod
    def next_page_token_of(page: Body) -> str | None:
        following = page["next_page"]
        return None if following is None else f"p{following}"
