"""How long a snapshot of PostgreSQL stays while nobody reads in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ingest.contract.table import SourceSpec, TableSpec
from ingest.sources.port import SourceAccess
from ingest.sources.postgresql.reader import PostgresSource

TABLE = TableSpec(1, "public", "o", "shop", "o", "/lake/o", "/lake/s", (), ())


class Connection:
    """Answers every statement with an ordinary table."""

    closed = False

    def __init__(self) -> None:
        self.info: Any = type("Info", (), {"hostaddr": "", "backend_pid": 7})

    def execute(self, sql: str, parameters: object = None) -> Connection:
        return self

    def fetchall(self) -> list[tuple[str]]:
        return [("r",)]


class Holder:
    id, is_alive = "1", True

    def __init__(self) -> None:
        self.last_hopes: list[bool] = []

    @contextlib.contextmanager
    def reader(self, *, is_last_hope: bool = False) -> Iterator[None]:
        self.last_hopes.append(is_last_hope)
        yield


def source_with(holder: Any) -> PostgresSource:
    spec = SourceSpec(1, "postgresql", "h", 5432, "shop", "reader", "1")
    connection: Any = Connection()
    source = PostgresSource(connection, SourceAccess(spec, "", "sluice:1"))
    source._holder = holder
    return source


def test_what_was_cut_waits_for_its_first_reader_as_long_as_for_the_next() -> None:
    """Page ranges hold in one snapshot only, and another table's chunk may keep the
    gate for longer than a snapshot stays that can be renewed."""
    holder = Holder()
    source = source_with(holder)
    with source.within(TABLE):
        pass
    assert holder.last_hopes == [True]
    with source.reading(TABLE, can_renew=False):
        pass
    with source.reading(TABLE):
        pass
    assert holder.last_hopes == [True, True, False]
