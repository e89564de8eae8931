"""A statement runs in the database and with the settings current when it was sent."""

from __future__ import annotations

import pytest
from pyhive.exc import OperationalError

from tests.doubles.engine import FakeAnswer, answer_to
from tests.integration.gateway.test_pyhive import connect, eventually


@pytest.fixture
def two(gateway, monkeypatch):
    """A connection of a user who may see any database."""

    async def visible(user, pattern, *, limit):
        return [pattern.replace("\\", "")]

    monkeypatch.setattr(gateway.gateway.store, "databases", visible)
    with connect(gateway) as connection:
        yield connection


def sent(gateway):
    return [sql for _, sql in gateway.engine.journal]


def test_use_after_it_was_sent_changes_nothing_for_a_statement(gateway, two):
    """It waits for an engine meanwhile."""
    with two.cursor() as cursor, two.cursor() as other:
        cursor.execute("USE one")
        gateway.do(gateway.engine.die)
        gateway.engine.faults.start_seconds = 1.0
        cursor.execute("SELECT 1", async_=True)
        other.execute("USE two")
        assert eventually(lambda: "SELECT 1" in sent(gateway))
        assert sent(gateway)[-2:] == ["USE `one`", "SELECT 1"]
        other.execute("SELECT 2")
        assert sent(gateway)[-2:] == ["USE `two`", "SELECT 2"]


def test_a_lost_result_is_made_again_where_it_was(gateway, two):
    with two.cursor() as cursor, two.cursor() as other:
        cursor.execute("USE one")
        cursor.execute("SELECT 1")
        other.execute("USE two")
        other.execute("SET sluice.label=later")
        gateway.do(gateway.engine.die)
        assert cursor.fetchall() == [(1,)]
        assert sent(gateway)[-2:] == ["USE `one`", "SELECT 1"]


def test_what_runs_keeps_its_database_when_another_begins(gateway, two):
    """Each in an engine session of its own, which goes with its result."""
    gateway.engine.answers = lambda sql: (
        FakeAnswer(seconds=3600) if sql == "slow" else answer_to(sql)
    )
    with two.cursor() as slow, two.cursor() as other:
        slow.execute("USE one")
        slow.execute("slow", async_=True)
        assert eventually(lambda: "slow" in sent(gateway))
        other.execute("USE two")
        other.execute("SELECT 2")
        assert len(gateway.engine.sessions) == 2
        assert other.fetchall() == [(2,)]
        other.execute("SET sluice.label=x")
        slow.cancel()
        assert eventually(lambda: gateway.engine.cancelled == 1)
        other.execute("SELECT 3")
        assert eventually(lambda: len(gateway.engine.sessions) == 1)
        changes = ["SET sluice.label=x", "USE `two`", "SELECT 3"]
        assert sent(gateway)[-3:] == changes


def test_statements_of_one_session_in_other_databases_are_bounded(
    gateway, two, monkeypatch
):
    monkeypatch.setattr("gateway.session_engine.MOST_APART", 1)
    gateway.engine.answers = lambda sql: FakeAnswer(
        seconds=3600 if "slow" in sql else 0
    )
    with two.cursor() as first, two.cursor() as second, two.cursor() as third:
        first.execute("slow", async_=True)
        assert eventually(lambda: "slow" in sent(gateway))
        third.execute("USE two")
        second.execute("slow 2", async_=True)
        assert eventually(lambda: "slow 2" in sent(gateway))
        with pytest.raises(OperationalError, match="1 statements of this session"):
            third.execute("SELECT 3")
        for cursor in (first, second):
            cursor.cancel()
