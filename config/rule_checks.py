"""A rule's expression, tried on its table by an engine before it is saved."""

from __future__ import annotations

from django.contrib.auth.models import User

from catalog.access.table_rights import HeldRule, RuleKind
from catalog.names import LAKE
from core.errors import InvalidRequest, SluiceError
from gateway import client

WAIT_SECONDS = 6.0
ABSENT = "42P01"


def check_rule(rule: HeldRule, by: str) -> None:
    """InvalidRequest with the engine's words when the expression cannot be analysed.

    Without an answer the rule is taken as it is: an engine that cannot apply it closes
    the table to whom it binds.
    """
    if not rule.expression or not User.objects.filter(username=by).exists():
        return
    try:
        statement = client.submit_statement(
            by, _explained(rule), wait_seconds=WAIT_SECONDS
        )
    except SluiceError:
        return
    error = statement["error"] or {}
    state = str(error.get("sql_state", ""))
    if state.startswith("42") and state != ABSENT:
        raise InvalidRequest(
            f"the expression cannot be applied: {error['message']}",
            code="invalid_expression",
            hint="SQL over the table's columns, without sub-queries",
            facts={"errors": [{"pointer": "/expression", "detail": error["message"]}]},
        )


def _explained(rule: HeldRule) -> str:
    """The end of the line ends a comment in it, too."""
    parts = [part.replace("`", "``") for part in rule.on.parts]
    if rule.on.datasource == LAKE:
        parts = parts[1:]
    table = ".".join(f"`{part}`" for part in parts)
    if rule.kind is RuleKind.ROW_FILTER:
        return f"EXPLAIN SELECT 1 FROM {table} WHERE (\n{rule.expression}\n)"
    return f"EXPLAIN SELECT (\n{rule.expression}\n) FROM {table}"
