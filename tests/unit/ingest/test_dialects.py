"""MariaDB's dialect and what dialects share, by tables of examples."""

from __future__ import annotations

import pytest

from core.errors import InvalidRequest
from ingest.contract.table import ColumnSpec
from ingest.sources.chunks import Chunk, KeyPart, key_predicate
from ingest.sources.dialects import dialect_of
from ingest.sources.select import select_columns

MARIADB = dialect_of("mariadb")


def test_mariadbs_composite_keys_are_spelled_out() -> None:
    parts = [KeyPart("a", "varchar(9)"), KeyPart("b", "bigint(20) unsigned")]
    chunk = Chunk(0, ("x'", "1"), ("y", "18446744073709551615"))
    assert key_predicate(MARIADB, parts, chunk) == (
        "`a` >= _utf8mb4 X'7827' AND"
        " ((`a` > _utf8mb4 X'7827') OR (`a` = _utf8mb4 X'7827' AND `b` > 1))"
        " AND `a` <= 'y' AND"
        " ((`a` < 'y') OR (`a` = 'y' AND `b` <= 18446744073709551615))"
    )
    one = [KeyPart("c`", "int(11)")]
    assert (
        key_predicate(MARIADB, one, Chunk(0, ("-5",), ("7",)))
        == "`c``` > -5 AND `c``` <= 7"
    )
    with pytest.raises(InvalidRequest):
        key_predicate(MARIADB, one, Chunk(0, ("1 OR 1=1",)))


@pytest.mark.parametrize(
    ("source_type", "lake", "part"),
    [
        ("bit(8)", "bigint", "CAST(`x` + 0 AS SIGNED)"),
        ("bigint(20) unsigned", "decimal(20,0)", "CAST(`x` AS DECIMAL(20,0))"),
        ("float", "float", "CAST(`x` AS DOUBLE)"),
        ("decimal(65,10)", "string", "CAST(`x` AS CHAR CHARACTER SET utf8mb4)"),
        ("date", "date", "TO_DAYS(`x`) - 719528"),
        ("timestamp", "timestamp", "TIMESTAMPDIFF(MICROSECOND"),
        ("point", "binary", "SELECT `x` AS c0"),
        ("blob", "binary", "SELECT `x` AS c0"),
        ("longtext", "string", "SELECT `x` AS c0"),
        ("text", "string", "SELECT `x` AS c0"),
    ],
)
def test_mariadbs_expressions_by_type(source_type: str, lake: str, part: str) -> None:
    selection = select_columns(MARIADB, [ColumnSpec("x", "x", source_type, lake)])
    assert part in selection.sql("`s`.`t`", "TRUE")
    assert bool(selection.masks) == (lake in {"date", "timestamp"})


@pytest.mark.parametrize(
    ("kind", "type", "digits"),
    [
        ("postgresql", "timestamp with time zone", 6),
        ("postgresql", "timestamp(0) without time zone", 0),
        ("mariadb", "timestamp", 0),
        ("mariadb", "datetime(3)", 3),
    ],
)
def test_digits_of_a_second(kind: str, type: str, digits: int) -> None:
    assert dialect_of(kind).fraction_digits(type) == digits


def test_a_kind_without_dialect_is_not_there_yet() -> None:
    with pytest.raises(InvalidRequest) as refused:
        dialect_of("mongodb")
    assert refused.value.code == "not_yet"


@pytest.mark.parametrize(
    ("kind", "source_type", "lake", "pairs"),
    [
        ("postgresql", "smallint", "int", ['"x" ?::int8']),
        ("postgresql", "numeric(5,2)", "decimal(5,2)", ['"x" ?::numeric']),
        (
            "postgresql",
            "timestamp(3) with time zone",
            "timestamp",
            ["\"x\" (?::timestamp AT TIME ZONE 'UTC')"],
        ),
        ("postgresql", "text", "string", ['"x" ?::text', '"x" COLLATE "C" ?::text']),
        ("postgresql", "character(3)", "string", []),
        ("postgresql", "citext", "string", []),
        ("postgresql", "money", "string", []),
        ("postgresql", "date[]", "array<date>", []),
        ("mariadb", "int(11)", "int", ["`x` CAST(? AS SIGNED)"]),
        (
            "mariadb",
            "bigint(20) unsigned",
            "decimal(20,0)",
            ["`x` CAST(? AS DECIMAL(20,0))"],
        ),
        ("mariadb", "year(4)", "int", []),
        ("mariadb", "bit(1)", "boolean", []),
        ("mariadb", "double", "double", []),
        ("mariadb", "datetime(3)", "timestamp_ntz", ["`x` CAST(? AS DATETIME(6))"]),
        (
            "mariadb",
            "varchar(9)",
            "string",
            [
                "COALESCE(CAST(CONVERT(`x` USING utf8mb4) AS BINARY),"
                " IF(`x` IS NULL, NULL, X'FF')) CAST(? AS BINARY)"
            ],
        ),
        ("mariadb", "enum('a')", "string", []),
        ("mariadb", "decimal(65,2)", "string", []),
    ],
)
def test_what_is_compared_at_a_source(
    kind: str, source_type: str, lake: str, pairs: list[str]
) -> None:
    found = dialect_of(kind).compared(ColumnSpec("x", "x", source_type, lake))
    assert [" ".join(pair) for pair in found.pairs] == pairs
    assert found.is_ordered is (len(pairs) == 1 and lake != "string")
