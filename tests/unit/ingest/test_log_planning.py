"""Plans of tables that are followed by their source's log."""

from __future__ import annotations

import json

import pytest

from core.errors import InvalidRequest
from ingest.planning.defaults import NO_DEFAULTS, plan_with_defaults
from ingest.planning.facts import Choices, Conditions, Target
from ingest.planning.plan import (
    ApplyChanges,
    FollowLog,
    plan_from_json,
    plan_to_json,
)
from tests.unit.ingest.test_planning import ID, UPDATED, column, facts, plan

NAME = column("name", "string")


def test_a_table_with_a_key_is_followed_without_a_cursor() -> None:
    found = plan(facts(ID, NAME), capture="log")
    assert found.blocked == ""
    assert found.proposals["cursor"].value is None
    assert found.step(ApplyChanges) is None
    step = found.step(FollowLog)
    assert "deletes" in step.summary
    assert plan_from_json(json.loads(json.dumps(plan_to_json(found)))) == found


@pytest.mark.parametrize(
    ("table", "choices", "reason"),
    [
        (facts(NAME), Choices(), "choose 'record_key'"),
        (facts(ID, NAME), Choices(record_key="row_hash"), "whole-row hash"),
        (facts(ID, UPDATED), Choices(updates="partial"), "partial updates"),
        (facts(ID, relation="view"), Choices(), "is a view"),
    ],
)
def test_what_the_log_does_not_carry_over_is_refused(table, choices, reason) -> None:
    found = plan(table, choices, capture="log")
    assert reason in found.blocked
    assert found.steps == ()


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_logs_of_other_kinds_come_later(kind: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan_with_defaults(
            facts(ID, source_kind=kind),
            Choices(),
            NO_DEFAULTS,
            Target("shop", "orders", "/lake/shop/orders"),
            lambda capture: Conditions(capture=capture),
            "log",
        )
    assert caught.value.code == "not_yet"
