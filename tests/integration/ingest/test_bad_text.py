"""Where a table of PostgreSQL has text that its server cannot send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from ingest.contract.table import SHARD, ColumnSpec, TableSpec
from ingest.sources.port import Source
from ingest.sources.registry import open_source
from tests.source_access import postgresql_at

TEXT = "string"
COLUMNS = (
    # a source does not have it
    ColumnSpec(SHARD, "shard", "", TEXT),
    ColumnSpec("id", "id", "integer", "int"),
    ColumnSpec("v", "v", "text", TEXT),
    ColumnSpec("list", "list", "text[]", f"array<{TEXT}>"),
)
GOOD = ("a", "\\303\\251", "\\342\\202\\254", "\\360\\237\\230\\200", "", "x\\ny")
BAD = (
    "\\351",
    "caf\\351 ",
    "\\300\\200",
    "\\355\\240\\200",
    "\\364\\220\\200\\200",
    "a\\303",
)


@pytest.fixture(params=["SQL_ASCII", "UTF8"])
def opened(source_pg, request: Any) -> Iterator[tuple[Source, Any, str]]:
    dsn = source_pg.create_database("bytes", like="template0", encoding=request.param)
    with (
        psycopg.connect(dsn, autocommit=True) as link,
        open_source(postgresql_at(dsn)) as source,
    ):
        link.execute("CREATE TABLE b (id int, v text, list text[])")
        for number, text in enumerate(GOOD):
            link.execute(
                f"INSERT INTO b VALUES ({number}, E'{text}', ARRAY[E'{text}'])"
            )
        link.execute("INSERT INTO b VALUES (90, NULL, NULL)")
        yield source, link, request.param


def spec_of(*key: str) -> TableSpec:
    return TableSpec(1, "public", "b", "bytes", "b", "/p", "/s", COLUMNS, key)


@pytest.mark.parametrize("column", ["v", "list"])
def test_a_byte_that_is_no_utf8_is_found(opened: Any, column: str) -> None:
    source, link, encoding = opened
    assert source.bad_text(spec_of("id")) == ""
    if encoding == "UTF8":
        return
    for text in BAD:
        value = f"ARRAY[E'{text}']" if column == "list" else f"E'{text}'"
        link.execute(f"INSERT INTO b (id, {column}) VALUES (7, {value})")
        with pytest.raises(psycopg.errors.CharacterNotInRepertoire):
            source.rows(f"SELECT {column} FROM public.b")
        found = source.bad_text(spec_of("id"))
        assert found.startswith(f"column '{column}' of the row with id = 7 has bytes")
        assert "SQL_ASCII" in found
        assert "ctid = (0," in source.bad_text(spec_of())
        link.execute("DELETE FROM b WHERE id = 7")


def test_a_key_is_shown_by_its_bytes(opened: Any) -> None:
    source, link, encoding = opened
    if encoding == "UTF8":
        return
    link.execute("INSERT INTO b VALUES (7, E'caf\\351', NULL)")
    assert "the row with v = caf\\351 has" in source.bad_text(spec_of("v"))
    # as docs/reading.md has it
    as_utf8 = "convert(convert_to(v, 'SQL_ASCII'), 'LATIN1', 'UTF8')"
    link.execute(f"UPDATE b SET v = convert_from({as_utf8}, 'SQL_ASCII') WHERE id = 7")
    assert source.bad_text(spec_of("v")) == ""
    assert source.rows("SELECT v FROM public.b WHERE id = 7") == [("café",)]
