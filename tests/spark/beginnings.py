"""Tables that many tests begin with: made by jobs once, then copied for each test.

A copy is a database from PostgreSQL's template and the lake's files, so that a test has
a source and a lake of its own without waiting for another load.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ingest.contract.table import TableSpec
from tests.source_server import SourceServer
from tests.spark.lake_bench import LakeBench, assert_done

T = TypeVar("T")
Make = Callable[[LakeBench], tuple[TableSpec, T]]


@functools.cache
def loaded_from(*statements: str) -> Make[dict[str, Any]]:
    """Table `o` that these statements make, followed by its column `at` and loaded;
    the facts of its load. One function for the same statements: it is what `Beginnings`
    knows a beginning by."""

    def load(bench: LakeBench) -> tuple[TableSpec, dict[str, Any]]:
        for statement in statements:
            bench.sql(statement)
        table = bench.table("o", cursor="at")
        return table, dict(assert_done(bench.load(table)).facts)

    return load


@dataclass(frozen=True)
class Kept:
    """What was made: a database without connections and a lake that nobody writes."""

    database: str
    lake: str
    table: TableSpec
    more: Any


class Beginnings:
    """Those of one session, each told by the function that makes it."""

    def __init__(self, spark: Any, server: SourceServer, folder: Path) -> None:
        self._spark, self._server, self._folder = spark, server, folder
        self._kept: dict[Make[Any], Kept] = {}

    def copy(self, bench: LakeBench, make: Make[T]) -> tuple[TableSpec, T]:
        """What `make` answers, of an empty bench that is then as if it had run there."""
        if make not in self._kept:
            self._kept[make] = self._made(make, f"beginning{len(self._kept)}")
        kept = self._kept[make]
        bench.become(self._server, kept.database, kept.lake)
        table = replace(
            kept.table,
            path=kept.table.path.replace(kept.lake, bench.lake),
            staging=kept.table.staging.replace(kept.lake, bench.lake),
        )
        return table, kept.more

    def _made(self, make: Make[Any], name: str) -> Kept:
        dsn = self._server.create_database(name)
        bench = LakeBench(self._spark, dsn, self._folder / name)
        try:
            table, more = make(bench)
        finally:
            bench.close()
        return Kept(name, bench.lake, table, more)


def fixture_of(*statements: str) -> Any:
    """A fixture: the bench, the table that `loaded_from` makes, and the bound of its
    load."""

    @pytest.fixture
    def loaded(
        lake_bench: LakeBench, beginnings: Beginnings
    ) -> tuple[LakeBench, TableSpec, str]:
        table, facts = beginnings.copy(lake_bench, loaded_from(*statements))
        return lake_bench, table, facts["bound"]

    return loaded
