"""A rule's expression, tried on its table by an engine before it is saved."""

from __future__ import annotations

from django.contrib.auth.models import User

from catalog.access.rule_trial import about_expression, has_query, trial_of
from catalog.access.table_rights import HeldRule
from core.errors import InvalidRequest, SluiceError
from core.sentences import as_sentence
from gateway import client

WAIT_SECONDS = 6.0
ABSENT = "42P01"
# of an engine: what is not of one row, or random, has no state in Spark
UNNAMED = "HY000"


def check_rule(rule: HeldRule, by: str) -> None:
    """InvalidRequest with the engine's words when the expression cannot be analysed.

    Without an answer the rule is taken as it is: an engine that cannot apply it closes
    the table to whom it binds.
    """
    if not rule.expression or not User.objects.filter(username=by).exists():
        return
    if has_query(rule.expression):
        raise _refused("it has a sub-query, and a rule looks at one row")
    try:
        statement = client.submit_statement(
            by, trial_of(rule), wait_seconds=WAIT_SECONDS
        )
    except SluiceError:
        return
    error = statement["error"] or {}
    state = str(error.get("sql_state", ""))
    if state == UNNAMED or (state.startswith("42") and state != ABSENT):
        raise _refused(about_expression(str(error["message"])))


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(
        "the expression cannot be applied: %(why)s",
        why=as_sentence(why),
        code="invalid_expression",
        hint="SQL over the columns of one row: no sub-query, no aggregate or window, no"
        " random function",
        facts={"errors": [{"pointer": "/expression", "detail": why}]},
    )
