"""A sealed file keeps its columns, whatever the plan says when it is applied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import TerminalError
from ingest.contract.epochs import Seal, SealedFile, decode_seal, encode
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.lake.sealed_columns import columns_of, match_columns, selection_in
from ingest.sources.dialects import dialect_of
from ingest.sources.select import Selection, select_columns

ID = ColumnSpec("id", "id", "integer", "int")
DAY = ColumnSpec("day", "day_", "date", "date")
ONE = ColumnSpec("one", "one", "text", "string")
TWO = ColumnSpec("two", "two", "text", "string")


def table(*columns: ColumnSpec, version: int = 3) -> TableSpec:
    return TableSpec(
        1, "public", "o", "shop", "o", "/l/o", "/l/s", columns, ("id",),
        schema_version=version,
    )  # fmt: skip


def selected(*columns: ColumnSpec) -> Selection:
    return select_columns(dialect_of("postgresql"), columns)


def sealed(*columns: ColumnSpec, has_changes: bool = False) -> Seal:
    named = columns_of(selected(*columns), columns)
    file = SealedFile(1, "1", 2, 3, "ab", columns=named, has_changes=has_changes)
    return Seal(7, 3, "a", "b", (file,), {"1": 3}, "job")


def matched(seal: Seal, *columns: ColumnSpec, version: int = 3) -> list[str]:
    now = selected(*columns)
    file = decode_seal(encode(seal)).files[0]
    found = match_columns(seal, file, table(*columns, version=version), now)
    assert [c.alias_now for c in found] == [c.alias for c in now.columns]
    return [c.alias for c in found]


def test_columns_are_found_by_their_names() -> None:
    """Two columns of one type in another order had their values swapped."""
    assert matched(sealed(ID, ONE, TWO), ID, TWO, ONE) == ["c0", "c2", "c1"]
    assert matched(sealed(ID, ONE, TWO), ID, TWO) == ["c0", "c2"]
    wider = replace(ID, type="bigint")
    assert matched(sealed(ID, ONE), wider, ONE) == ["c0", "c1"]
    # it came later; rows that were read as they are come again with it
    assert matched(sealed(ID, has_changes=True), ID, ONE, version=4) == ["c0", ""]
    assert matched(sealed(ID), ID, ONE) == ["c0", ""]


@pytest.mark.parametrize(
    ("columns", "version", "why"),
    [
        ((ID, ONE, TWO), 3, "lacks column two"),
        ((replace(ID, source_name="other"), ONE), 3, "lacks column other"),
        ((ID, replace(ONE, type="int")), 4, "has one as string there and int"),
    ],
)
def test_a_file_that_cannot_be_read_right_is_refused(
    columns: tuple[ColumnSpec, ...], version: int, why: str
) -> None:
    with pytest.raises(TerminalError, match=why) as caught:
        matched(sealed(ID, ONE, has_changes=True), *columns, version=version)
    assert caught.value.code == "epoch_unreadable"


def test_a_key_is_never_left_out() -> None:
    seal = sealed(ONE)
    with pytest.raises(TerminalError, match="lacks column id"):
        matched(seal, ID, ONE, version=4)


def test_masks_are_counted_where_the_file_has_them() -> None:
    seal = sealed(ID, DAY)
    found = selection_in(seal.files[0])
    assert [(c.alias, c.name, c.bit) for c in found.columns] == [
        ("c0", "id", -1),
        ("c1", "day", 0),
    ]
    assert found.mask_aliases == ("m0",)
