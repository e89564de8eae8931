"""What runs is in the audit before its answer leaves, whatever its text holds."""

from __future__ import annotations

import hashlib

import pytest
from psycopg import DataError
from pyhive.exc import OperationalError
from TCLIService.ttypes import TOperationState

from catalog.access.principal_policy import ReadTables
from catalog.models import AuditEntry
from gateway import version_reader
from tests.doubles.engine import FakeAnswer, FakeEngine, answer_to
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_version_reader import locked

RUNNING = TOperationState.RUNNING_STATE


def started() -> list[dict[str, object]]:
    lines = AuditEntry.objects.filter(actor="ann", action="statement.start")
    facts = [line.facts for line in lines.order_by("id")]
    assert facts[0] == {"statement": "USE `default`"}  # PyHive's own
    return facts[1:]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("SELECT 1 /* \x00 */", "SELECT 1 /* \\x00 */"), ("SELECT 1", "SELECT 1")],
    ids=["with a NUL", "plain"],
)
def test_a_statement_is_in_the_audit_before_its_answer_leaves(gateway, text, shown):
    gateway.engine.answers = lambda sql: answer_to("SELECT 1")
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        assert started() == [{"statement": shown}]
        assert cursor.fetchall() == [(1,)]
    assert ("ann", text) in gateway.engine.journal


def test_a_long_statement_is_cut_and_its_whole_proven_by_a_sum(gateway):
    text = "SELECT 1" + " " * 5000
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute(text)
    (facts,) = started()
    assert (len(facts["statement"]), facts["characters"]) == (4000, 5008)
    assert facts["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_without_its_audit_line_no_answer_leaves(gateway, monkeypatch):
    """Neither rows nor columns nor an error; one that has its line goes on beside it."""
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")

        def full(lines):
            raise DataError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(version_reader, "as_json", full)
            for text in ("SELECT 2", "no SQL"):
                with pytest.raises(OperationalError, match="audit trail") as raised:
                    cursor.execute(text)
                assert raised.value.args[0].status.sqlState == "08S01"
            (session,) = gateway.engine.sessions
            assert eventually(lambda: len(session._statements) == 0)
        cursor.execute("SELECT 3")
        assert cursor.fetchall() == [(3,)]


def test_what_changes_a_session_is_in_the_audit_before(gateway, monkeypatch):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        before = list(gateway.engine.journal)

        def full(lines):
            raise DataError("the disk is full")

        monkeypatch.setattr(version_reader, "as_json", full)
        with pytest.raises(OperationalError, match="audit trail"):
            cursor.execute("SET sluice.label=1")
        assert gateway.engine.journal == before
        monkeypatch.undo()


def test_an_answer_waits_for_its_line(gateway):
    """Which is written while the engine works."""
    lines = gateway.gateway.store._lines
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        seconds, lines._seconds = lines._seconds, 600.0
        locker = locked("catalog_auditentry")
        try:
            cursor.execute("SELECT 2", async_=True)
            assert eventually(lambda: ("ann", "SELECT 2") in gateway.engine.journal)
            assert cursor.poll().operationState == RUNNING
        finally:
            locker.close()
            lines._seconds = seconds
        assert eventually(lambda: cursor.poll().operationState != RUNNING)
        assert cursor.fetchall() == [(2,)]
        assert started()[-1] == {"statement": "SELECT 2"}


def run_facts():
    line = AuditEntry.objects.filter(action="statement.run").order_by("id").last()
    return line.facts if line and "reads" in line.facts else None


def test_the_end_of_a_statement_tells_what_it_read(gateway):
    tables = {"shop.orders": frozenset({"pay", "id"}), "pg.public.t": frozenset()}
    gateway.engine.read = ReadTables(7, tables)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert eventually(run_facts)
    told = run_facts()
    assert (told["policy_version"], told["reads"]) == (
        7,
        [
            {"table": "pg.public.t", "columns": []},
            {"table": "lake.shop.orders", "columns": ["id", "pay"]},
        ],
    )


def test_what_a_long_statement_reads_is_taken_while_it_runs(gateway, monkeypatch):
    """The engine's word is kept for a while only, and others push it out."""
    told = [ReadTables(7, {"shop.orders": frozenset({"id"})})]
    monkeypatch.setattr(FakeEngine, "reads", lambda *_: told.pop() if told else None)
    long = FakeAnswer(seconds=60, waits="a place")
    gateway.engine.answers = lambda sql: long if "1" in sql else answer_to(sql)
    with connect(gateway) as connection, connection.cursor() as cursor:
        told.append(told[0])  # what PyHive's own USE takes
        cursor.execute("SELECT 1", async_=True)
        assert eventually(lambda: not told)
        cursor.cancel()
        assert eventually(run_facts)
    assert run_facts()["reads"] == [{"table": "lake.shop.orders", "columns": ["id"]}]


def test_the_end_of_a_statement_says_when_nobody_knows_what_it_read(gateway):
    gateway.engine.read = None
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert eventually(run_facts)
    assert (run_facts()["reads"], run_facts()["reads_more"]) == ([], True)
