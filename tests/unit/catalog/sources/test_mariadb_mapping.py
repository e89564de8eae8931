"""Which lake type holds each type of MariaDB and MySQL, by COLUMN_TYPE's text."""

from __future__ import annotations

import pytest

from catalog.schema.types import DataType
from catalog.sources import registry
from catalog.sources.mariadb.types import lake_type

ZERO = "zero dates, dates with a zero month or day"
CARRIED = [
    *((f"{name}({width})", "int") for name, width in (("tinyint", 1), ("tinyint", 4))),
    ("tinyint(3) unsigned", "int"),
    ("tinyint", "int"),
    ("smallint(6)", "int"),
    ("smallint(5) unsigned", "int"),
    ("mediumint(9)", "int"),
    ("mediumint(8) unsigned zerofill", "int"),
    ("int(11)", "int"),
    ("int", "int"),
    ("int(10) unsigned", "bigint"),
    ("int unsigned", "bigint"),
    ("int(8) zerofill", "bigint"),
    ("bigint(20)", "bigint"),
    ("bigint(20) unsigned", "decimal(20,0)"),
    ("bigint unsigned", "decimal(20,0)"),
    ("bit(1)", "boolean"),
    ("bit(2)", "bigint"),
    ("bit(63)", "bigint"),
    ("bit(64)", "decimal(20,0)"),
    ("decimal(10,0)", "decimal(10,0)"),
    ("decimal(10,2) unsigned", "decimal(10,2)"),
    ("decimal(38,38)", "decimal(38,38)"),
    ("decimal(39,2)", "string"),
    ("decimal(65,10)", "string"),
    ("float", "float"),
    ("float(7,3)", "float"),
    ("float unsigned", "float"),
    ("double", "double"),
    ("double(10,2) unsigned zerofill", "double"),
    ("year(4)", "int"),
    ("year", "int"),
    ("time", "string"),
    ("time(6)", "string"),
    ("char(3)", "string"),
    ("varchar(255)", "string"),
    ("varchar(100) /*M!100301 COMPRESSED*/", "string"),
    ("longtext", "string"),
    ("json", "string"),
    ("enum('a','b (2)','it''s unsigned')", "string"),
    ("enum('cut off in the midd", "string"),
    ("set('x','y')", "string"),
    ("uuid", "string"),
    ("inet4", "string"),
    ("inet6", "string"),
    ("binary(16)", "binary"),
    ("varbinary(9)", "binary"),
    *((f"{size}blob", "binary") for size in ("tiny", "", "medium", "long")),
    *((name, "binary") for name in ("geometry", "point", "polygon", "multipoint")),
    ("geomcollection", "binary"),
    ("geometrycollection", "binary"),
]


@pytest.mark.parametrize(("text", "expected"), CARRIED)
def test_values_that_all_fit(text: str, expected: str) -> None:
    found = lake_type(text)
    assert (found.type, found.reason) == (expected, "")
    assert registry.cannot_hold(text, expected, kind="mariadb") == ""
    assert str(DataType.parse(found.type)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date", "date"),
        ("datetime", "timestamp_ntz"),
        ("datetime(6)", "timestamp_ntz"),
        ("timestamp", "timestamp"),
        ("timestamp(3) /* mariadb-5.3 */", "timestamp"),
    ],
)
def test_dates_that_are_in_no_calendar_need_a_choice(text: str, expected: str) -> None:
    assert lake_type(text).type == expected
    for kind in ("mariadb", "mysql"):
        assert registry.cannot_hold(text, expected, kind=kind) == ZERO
        assert registry.proposed_choice(text, expected, kind=kind) == "null"
        assert registry.proposed_choice(text, "string", kind=kind) == ""


@pytest.mark.parametrize(
    ("text", "words"), [("vector(3)", "vectors"), ("xmltype", "xmltype"), ("", "type")]
)
def test_what_is_not_carried_says_why(text: str, words: str) -> None:
    assert lake_type(text).type == ""
    assert words in lake_type(text).reason


def test_the_kind_decides_which_values_do_not_fit() -> None:
    """The same words name other types at other sources."""
    assert "infinity" in registry.cannot_hold("date", "date", kind="postgresql")
    numeric = "decimal(5,2)"
    assert registry.cannot_hold("numeric(5,2)", numeric, kind="postgresql") == "NaN"
    assert registry.cannot_hold("decimal(5,2)", numeric, kind="mariadb") == ""


@pytest.mark.parametrize(
    ("text", "lake", "kind", "expected"),
    [
        ("numeric", "string", "postgresql", "string"),
        ("decimal(65,10)", "string", "mariadb", "string"),
        ("decimal(10,2)", "decimal(10,2)", "mysql", ""),
        ("numeric(5,2)", "decimal(5,2)", "postgresql", "null"),
        ("text", "string", "postgresql", ""),
        ("vector(3)", "", "mysql", ""),
    ],
)
def test_what_a_plan_proposes(text: str, lake: str, kind: str, expected: str) -> None:
    assert registry.proposed_choice(text, lake, kind=kind) == expected
