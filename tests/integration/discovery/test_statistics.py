"""After a large discovery the planner knows how large the catalog is."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.discovery import services, store
from catalog.models import Column, Table
from core import jobs
from core.models import Job
from tests.integration.discovery.support import discover

pytestmark = pytest.mark.django_db


def planned_rows(model: type) -> int:
    """What the planner believes; it asks the file's size for what it never saw."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
            [model._meta.db_table],
        )
        return cursor.fetchone()[0]


@pytest.fixture
def wide_source(source):
    """40 tables of 26 columns: 1,080 rows in the catalog."""
    columns = ", ".join(f"c{n} int" for n in range(26))
    source.run(*(f"CREATE TABLE t{n} ({columns})" for n in range(40)))
    source.grant_all()
    return source


def analyzed(datasource) -> tuple[Job, list[str]]:
    with CaptureQueriesContext(connection) as queries:
        job = discover(datasource)
    sent = [q["sql"] for q in queries if q["sql"].startswith("ANALYZE")]
    return job, sent


def test_a_large_discovery_leaves_statistics(wide_source) -> None:
    job, sent = analyzed(wide_source.datasource)
    assert job.state == jobs.SUCCEEDED
    assert len(sent) == len(store._FILLED)
    assert planned_rows(Column) >= 40 * 26
    assert planned_rows(Table) >= 40


def test_a_discovery_that_changes_little_leaves_them_alone(wide_source) -> None:
    discover(wide_source.datasource)
    wide_source.run("CREATE TABLE one_more (a int)")
    assert analyzed(wide_source.datasource)[1] == []


def test_many_vanished_tables_count_too(wide_source, monkeypatch) -> None:
    discover(wide_source.datasource)
    monkeypatch.setattr(services, "ROWS_WORTH_STATISTICS", 39)
    wide_source.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    job, sent = analyzed(wide_source.datasource)
    assert job.report["vanished"] == 40
    assert len(sent) > 0


@pytest.mark.django_db(transaction=True)
def test_each_table_is_analyzed_in_a_transaction_of_its_own(wide_source) -> None:
    """No lock outlives its table's turn, and nothing is held while the page is saved."""
    with CaptureQueriesContext(connection) as queries:
        discover(wide_source.datasource)
    sent = [q["sql"] for q in queries]
    first = next(n for n, sql in enumerate(sent) if sql.startswith("ANALYZE"))
    assert [sql.split()[0] for sql in sent[first - 2 : first + 5]] == [
        "COMMIT", "BEGIN", "ANALYZE", "COMMIT", "BEGIN", "ANALYZE", "COMMIT",
    ]  # fmt: skip


def test_without_statistics_a_discovery_succeeds_with_a_warning(
    wide_source, monkeypatch
) -> None:
    monkeypatch.setattr(store, "_FILLED", (Table, Nowhere))
    job = discover(wide_source.datasource)
    assert job.state == jobs.SUCCEEDED
    warning = job.log_lines.get(level="warning").message
    assert "no_such_table" in warning
    assert Column.objects.count() == 40 * 26


class Nowhere:
    """A model whose table is not there."""

    class _meta:
        db_table = "no_such_table"
