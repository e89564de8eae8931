"""Which changes of a type leave stored values as they are."""

from __future__ import annotations

import pytest

from catalog.schema.widening import keeps_values, widens_in_place


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "bigint", True),
        ("decimal(10,2)", "decimal(14,2)", True),
        ("decimal(20,2)", "decimal(30,2)", True),
        # another scale is another number of digits behind the point
        ("decimal(10,2)", "decimal(14,4)", False),
        ("decimal(14,2)", "decimal(10,2)", False),
        # Hudi reads 3.1 from an old file, the source has 3.0999999046325684
        ("float", "double", False),
        # the reader of base files refuses them
        ("array<int>", "array<bigint>", False),
        ("bigint", "int", False),
        ("int", "string", False),
        ("decimal(10,2)", "string", False),
    ],
)
def test_what_hudi_widens_in_place(old: str, new: str, expected: bool) -> None:
    assert widens_in_place(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("character varying(10)", "character varying(20)"),
        ("character varying(10)", "character varying"),
        ("character varying(10)", "text"),
        ("varchar(10)", "longtext"),
        ("smallint", "integer"),
        ("tinyint(4)", "smallint(6)"),
        ("int(11) unsigned", "bigint(20) unsigned"),
        ("text", "mediumtext"),
        ("blob", "longblob"),
        ("varbinary(10)", "varbinary(20)"),
        ("enum('a','b')", "enum('a','b','c')"),
        ("set('a','B')", "set('a','B','b ')"),
        ("datetime", "datetime(6)"),
        ("timestamp(3)", "timestamp(6)"),
        ("uuid", "uuid"),
    ],
)
def test_growth_keeps_values_and_its_reverse_is_not_trusted(old: str, new: str) -> None:
    assert keeps_values(old, new)
    assert old == new or not keeps_values(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("json", "jsonb"),
        ("character(5)", "character(9)"),
        ("character(5)", "text"),
        ("text", "character varying(5)"),
        ("int(11)", "int(11) unsigned"),
        ("enum('a','b')", "enum('b','a')"),
        # the server takes them for equal and alters no row: each reads otherwise
        ("enum('Sad','ok')", "enum('sad','ok')"),
        ("set('a','b')", "set('a','B','c')"),
        ("timestamp(3) without time zone", "timestamp without time zone"),
        ("numeric(50,2)", "text"),
        ("uuid", "text"),
        ("mediumtext", "varchar(10)"),
    ],
)
def test_what_may_read_otherwise_is_not_trusted(old: str, new: str) -> None:
    assert not keeps_values(old, new)
