"""How long a look at a PostgreSQL source waits for tables that others work on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from ingest.contract.following import is_name_at_source, name_at_source
from ingest.contract.table import TableSpec
from ingest.sources.port import LogNames
from ingest.sources.postgresql.log.publications import Publications


def table(number: int) -> TableSpec:
    return TableSpec(
        number, "public", f"t{number}", "lake", f"t{number}", "/l", "/s", (), ("id",)
    )


class _Source:
    """Of which every table is locked. waited: for which of them a statement did.
    published: tables of a publication that was made since publications were listed."""

    def __init__(self, members: list[str]) -> None:
        self.members = members
        self.published: list[str] = []
        self.waited: list[str] = []
        self.tried: list[str] = []
        self.connection: Any = self
        self.info: Any = self
        self.server_version = 170_000
        self._is_unwaiting = False

    def rows(self, sql: str, _: object) -> list[tuple[Any, ...]]:
        if "pg_has_role" in sql:
            return [("own", True, True)]
        if "unnest" in sql:
            return [("public", one, "new", "r1", []) for one in self.published]
        is_of_one_table = "LEFT JOIN pg_publication_rel" in sql
        if is_of_one_table or "pubname = " not in sql:
            return []
        return [("public", one) for one in self.members]

    def run(self, statement: str) -> None:
        name = statement.rpartition(".")[2].strip('"')
        (self.tried if self._is_unwaiting else self.waited).append(name)
        raise psycopg.errors.LockNotAvailable("canceled due to lock timeout")

    @contextlib.contextmanager
    def unwaiting(self) -> Iterator[None]:
        self._is_unwaiting = True
        try:
            yield
        finally:
            self._is_unwaiting = False


@pytest.mark.parametrize("members", [[], ["gone1", "gone2"]])
def test_a_look_waits_for_one_table_and_each_has_its_turn(members: list[str]) -> None:
    """Nothing is read of the log meanwhile; and who vacuums a table goes on for hours
    unless somebody waits for it."""
    source: Any = _Source(members)
    publications = Publications(source, LogNames("slot", "own"))
    tables = [table(number) for number in range(30)]
    turns = len(tables) + len(members)
    for look in range(turns + 1):
        problems = publications.cover(tables)
        assert len(problems) == len(tables)
        assert len(source.waited) == look
        assert len(source.tried) == turns * (look + 1) - look
    assert {*source.waited} == {*members, *(one.source_table for one in tables)}


def test_a_table_that_is_wanted_no_more_takes_no_turn() -> None:
    source: Any = _Source([])
    publications = Publications(source, LogNames("slot", "own"))
    for wanted in ([1, 2], [2], [2]):
        publications.cover([table(number) for number in wanted])
    assert source.waited == ["t2"]


def test_a_publication_that_is_made_during_a_look_is_for_the_next_one() -> None:
    source: Any = _Source([])
    source.published = ["t1"]
    publications = Publications(source, LogNames("slot", "own"))
    problems = publications.cover([table(1)])
    assert "lock timeout" in problems[1]


def test_what_is_named_for_a_stream_is_known_by_its_name() -> None:
    assert is_name_at_source(name_at_source(7, "0123abcd"))
    for theirs in ("sluice", "sluice_7", "theirs", "sluice_7_0123abcd_old"):
        assert not is_name_at_source(theirs)
