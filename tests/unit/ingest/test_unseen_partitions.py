"""A look at partitions that a lock or a slow source prevents is tried again, and at last
a problem of the table."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.postgresql.log import reader as log_reader
from ingest.sources.postgresql.log.control import FoundTable
from ingest.sources.postgresql.log.parts import Part, Parts
from ingest.sources.postgresql.log.tables import Identity, SourceTable

ID = ColumnSpec("id", "id", "integer", "int")
TABLE = TableSpec(7, "public", "t", "db", "t", "/lake/t", "", (ID,), ("id",))
PARTS = {"8/9": Part(8, 9)}


def test_what_cannot_be_looked_at_for_long_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[bool | Exception] = [psycopg.errors.LockNotAvailable("locked")]
    clock = SimpleNamespace(now=1000.0)

    def has_row_of(*_: Any) -> bool:
        answer = answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    control: Any = SimpleNamespace(
        money_digits=lambda: 2, has_row_of=has_row_of, unwaiting=nullcontext
    )
    publications: Any = SimpleNamespace(in_use=("p",), by_which=lambda _table: ())
    none: Any = None
    monkeypatch.setattr(
        log_reader, "time", SimpleNamespace(monotonic=lambda: clock.now)
    )
    reader = log_reader.PostgresLogReader(none, none, none, control, publications, none)
    reader._tables = (TABLE,)
    table = SourceTable("f", ())
    found = FoundTable(5, "p", "p", False, {"id": 1}, table, (), parts=PARTS)
    reader._found = {("public", "t"): found}
    written = Identity(5, {"id": 1}, parts=Parts(PARTS).noted([(8, 9, 1)])).encode()
    reader.identities = {7: written}
    assert reader._problems_of_identities() == {}
    clock.now += 599
    assert reader._problems_of_identities() == {}
    clock.now += 1
    assert "checked for long (locked)" in reader._problems_of_identities()[7]
    assert reader.identities == {7: written}
    # once it can be, nothing is left of that
    answers[0] = True
    assert reader._problems_of_identities() == {}
    reader.identities, answers[0] = {7: written}, psycopg.errors.QueryCanceled("slow")
    assert reader._problems_of_identities() == {}
