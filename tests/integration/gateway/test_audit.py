"""What runs is in the audit before it runs, whatever its text holds."""

from __future__ import annotations

import hashlib

import pytest
from django.db import DataError
from pyhive.exc import OperationalError

from catalog.models import AuditEntry
from gateway import audit_lines
from tests.doubles.engine import answer_to
from tests.integration.gateway.test_pyhive import connect


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
def test_a_statement_is_in_the_audit_before_the_engine_has_it(gateway, text, shown):
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


def test_without_its_audit_line_no_statement_runs(gateway, monkeypatch):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        before = list(gateway.engine.journal)

        def full(entries):
            raise DataError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(audit_lines.audit, "append", full)
            with pytest.raises(OperationalError, match="audit trail") as raised:
                cursor.execute("SELECT 2")
        assert raised.value.args[0].status.sqlState == "08S01"
        assert gateway.engine.journal == before
        cursor.execute("SELECT 3")
        assert cursor.fetchall() == [(3,)]
