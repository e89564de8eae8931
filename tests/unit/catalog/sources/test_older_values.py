"""What a column of MariaDB gave to the rows that were there as it was added."""

from __future__ import annotations

import pytest

from catalog.sources.mariadb.older import given, older_of
from catalog.sources.mariadb.types import lake_type
from ingest.contract.table import ColumnSpec
from ingest.driver.apply.log_fold import older_value

# Types, defaults as the server prints them, and what the lake has then.
TOLD = [
    ("int(11)", "5", 5),
    ("int(11)", "-7", -7),
    ("bigint(20) unsigned", "18446744073709551615", "18446744073709551615"),
    ("decimal(10,2)", "1.50", "1.50"),
    ("double", "0.1", 0.1),
    ("float", "1e20", "1.0000000200408773e+20"),
    ("year(4)", "2024", 2024),
    ("year(2)", "70", 70),
    ("varchar(20)", "'it''s'", "it's"),
    ("varchar(9)", "'NULL'", "NULL"),
    ("enum('a','b')", "'b'", "b"),
    ("set('a','b')", "'a,b'", "a,b"),
    ("longtext", "''", ""),
    ("date", "'2024-01-02'", "2024-01-02"),
    ("datetime(3)", "'2024-01-01 01:02:03.000'", "2024-01-01 01:02:03"),
    ("timestamp", "'2024-01-01 00:00:00'", "2024-01-01 00:00:00+00:00"),
]
# What is computed, or has no form that is the same in a log.
UNTOLD = [
    ("varchar(9)", "concat('a','b')"),
    ("int(11)", "(1 + 4)"),
    ("timestamp", "current_timestamp()"),
    ("date", "'0000-00-00'"),
    ("varchar(9)", r"'a\nb'"),
    ("binary(3)", r"'ab\0'"),
    ("bit(3)", "b'101'"),
    ("time", "'01:02:03'"),
    ("uuid", "'00000000-0000-0000-0000-000000000001'"),
]


@pytest.mark.parametrize(("type", "default", "value"), TOLD)
def test_what_a_constant_gave(type: str, default: str, value: object) -> None:
    found = older_of([("c", type, default, 1, "")])
    assert found.untold == ()
    column = ColumnSpec("c", "c", type, lake_type(type).type, older=found.values["c"])
    assert str(older_value(column).as_py()) == str(value)


@pytest.mark.parametrize(("type", "default"), UNTOLD)
def test_what_nobody_can_know(type: str, default: str) -> None:
    assert older_of([("c", type, default, 1, "")]).untold == ("c",)


@pytest.mark.parametrize(
    ("default", "is_nullable", "extra", "told", "untold"),
    [
        (None, 1, "", {}, ()),
        ("NULL", 1, "INVISIBLE", {}, ()),
        (None, 0, "", {"c": "0"}, ()),
        ("NULL", 1, "STORED GENERATED", {}, ("c",)),
        (None, 0, "auto_increment", {}, ("c",)),
    ],
)
def test_without_a_default(
    default: str | None,
    is_nullable: int,
    extra: str,
    told: dict[str, str],
    untold: tuple[str, ...],
) -> None:
    found = older_of([("c", "int(11)", default, is_nullable, extra)])
    assert (found.values, found.untold) == (told, untold)


@pytest.mark.parametrize(
    ("type", "default", "value"),
    [
        ("int(11)", "5", "5"),
        ("int(11)", "1.6", None),
        # 2024, and 70
        ("year(4)", "24", None),
        ("year(2)", "1970", None),
        ("decimal(9,2)", "1.50", "1.50"),
        ("decimal(9,2)", "1.505", None),
        ("double", "0.1", "0.1"),
        ("float", "0.1", None),
        ("varchar(4)", "'it''s'", "it's"),
        ("varchar(3)", "'it''s'", None),
        ("char(4)", "'ab '", None),
        ("longtext", "'ab '", "ab "),
        ("enum('x','y')", "'X'", None),
        ("date", "'2024-02-03'", "2024-02-03"),
        ("date", "'24-2-3'", None),
        ("date", "'2024-02-30'", None),
        ("datetime(3)", "'2024-02-03 04:05:06.789'", "2024-02-03 04:05:06.789"),
        ("datetime", "'2024-02-03 04:05:06.789'", None),
        # of its session's time zone
        ("timestamp", "'2024-02-03 04:05:06'", None),
        ("varbinary(9)", "'a'", None),
    ],
)
def test_what_a_statement_gave(type: str, default: str, value: str | None) -> None:
    """None: what the server stored may be another value, so nobody relies on that."""
    found = given(type, default, is_nullable=False)
    assert (found.values[""] if found else None) == value


@pytest.mark.parametrize(
    ("default", "is_nullable", "values"),
    [
        (None, True, {}),
        ("NULL", True, {}),
        (None, False, {"": ""}),
        ("''", False, {"": ""}),
        # NULL in a session in Oracle's mode
        ("''", True, None),
    ],
)
def test_what_a_statement_gave_that_says_little(
    default: str | None, values: dict[str, str] | None, *, is_nullable: bool
) -> None:
    found = given("varchar(9)", default, is_nullable=is_nullable)
    assert (found.values if found else None) == values
