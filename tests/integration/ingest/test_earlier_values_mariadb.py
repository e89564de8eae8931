"""Older values of a new column, asked of real servers without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from core.errors import TransientError
from ingest.contract.job import SyncWork
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.capture import added_columns
from ingest.driver.capture.added_columns import find_earlier_values, new_columns
from ingest.sources.port import SourceAccess
from ingest.sources.registry import open_source
from tests.integration.ingest.bound_runs import run_with, table_of
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at, postgresql_at

LOW = "2026-01-02T00:00:00.000000Z"
ROWS = """INSERT INTO o VALUES (1, '2026-01-01 00:00:00', 7),
  (2, '2026-01-01 00:00:00', NULL), (3, NULL, 7), (4, '2026-01-03 00:00:00', 7)"""


class Kind:
    """One kind of source with table `o` and a view `slow` of it that takes seconds."""

    def __init__(self, access: SourceAccess, schema: str, limit: str, at: str) -> None:
        self.access, self.schema, self.limit, self.at = access, schema, limit, at

    @contextmanager
    def run(self, table: str = "o", *added: str) -> Iterator[tuple[Any, ...]]:
        column = ColumnSpec("x", "x", "int", "int")
        spec = table_of(self.schema, self.at, column, name=table)
        work = SyncWork(LOW, 1.0, added=added or ("x",))
        with open_source(self.access) as source:
            yield run_with(work, spec), source, work


@pytest.fixture(params=["postgresql", "mariadb"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "postgresql":
        server = request.getfixturevalue("source_pg")
        dsn = str(server.create_database("earlier"))
        with psycopg.connect(dsn, autocommit=True) as link:
            link.execute(
                "SET TimeZone TO 'UTC';"
                "CREATE TABLE o (id int PRIMARY KEY, at timestamptz, x int);"
                f"{ROWS};"
                "CREATE VIEW slow AS SELECT o.* FROM o, pg_sleep(20)"
            )
        return Kind(
            postgresql_at(dsn),
            "public",
            "SELECT set_config('statement_timeout', '200', false)",
            "timestamp with time zone",
        )
    maria: MariaDbServer = request.getfixturevalue("mariadb_server")
    maria.create_database("earlier")
    maria.run(
        "SET time_zone = '+00:00'",
        "CREATE TABLE o (id int PRIMARY KEY, at timestamp NULL, x int)",
        ROWS,
        "CREATE VIEW slow AS SELECT o.id, o.at, o.x + sleep(20) AS x FROM o",
        database="earlier",
    )
    limit = "SET max_statement_time = 0.2"
    return Kind(mariadb_at(maria), "earlier", limit, "timestamp")


def test_rows_at_or_below_the_position_and_those_without_one(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kind.run() as (run, source, work):
        found = find_earlier_values(run, source, work.added, low=work.low)
        assert found.found == "read"
        relation = source.dialect.qualified(kind.schema, "o")
        rows = source.rows(f"SELECT id FROM {relation} WHERE {found.where} ORDER BY id")
        assert [row[0] for row in rows] == [1, 3]
        monkeypatch.setattr(added_columns, "REREAD_ROWS", 1)
        left = find_earlier_values(run, source, work.added, low=work.low)
        assert (left.found, left.where) == ("many", "")
        assert any("until a resync" in line for line in run.warnings)
        assert left.facts(LOW)["added"]["from"] == LOW


def test_a_source_that_does_not_tell_in_time_leaves_it_open(kind: Kind) -> None:
    with kind.run("slow") as (run, source, work):
        source.rows(kind.limit)
        found = find_earlier_values(run, source, work.added, low=work.low)
        assert (found.found, found.where) == ("unknown", "")
        # and the connection still reads
        assert source.one("SELECT 1")[0] == 1


def test_a_stop_while_it_asks_is_a_stop(kind: Kind) -> None:
    from ingest.driver.apply.jobrun import Interrupted

    with kind.run("slow") as (run, source, work):
        source.rows(kind.limit)
        run.request_stop("cancel")
        with pytest.raises(Interrupted):
            find_earlier_values(run, source, work.added, low=work.low)


def test_only_undecided_columns_stop_a_sync() -> None:
    columns = (ColumnSpec("id", "id", "int", "int"),)
    table = TableSpec(1, "s", "o", "d", "t", "/p", "/s", columns, ("id",))
    known = SyncWork(LOW, 1.0, known=("left",), stops_at_new=True)
    assert new_columns(table, known, ["id", "left"]) == ()
    with pytest.raises(TransientError, match="has new columns: x") as stopped:
        new_columns(table, known, ["id", "left", "x"])
    assert stopped.value.code == "columns_added"
    passing = SyncWork(LOW, 1.0, known=("left",))
    assert new_columns(table, passing, ["id", "x"]) == ("x",)
