"""Every PostgreSQL type of release 1, and every one that is refused with a reason."""

from __future__ import annotations

import pytest

from catalog.schema.types import DataType, Mapped
from catalog.sources.postgresql.types import SourceType, cannot_hold, lake_type
from catalog.sources.registry import proposed_choice
from core.errors import InvalidRequest

SEVERAL = "arrays of several dimensions"
INFINITE = "infinity, -infinity and years outside 0001-9999"

CARRIED = [
    ("boolean", "boolean", ""),
    ("smallint", "int", ""),
    ("integer", "int", ""),
    ("bigint", "bigint", ""),
    ("oid", "bigint", ""),
    ("real", "float", ""),
    ("double precision", "double", ""),
    ("numeric", "string", ""),
    ("numeric(12,2)", "decimal(12,2)", "NaN"),
    ("numeric(38,0)", "decimal(38,0)", "NaN"),
    ("numeric(38,38)", "decimal(38,38)", "NaN"),
    ("numeric(39,0)", "string", ""),
    ("numeric(60,20)", "string", ""),
    ("numeric(5)", "decimal(5,0)", "NaN"),
    ("numeric(10,-2)", "decimal(12,0)", "NaN"),
    ("numeric(37,-1)", "decimal(38,0)", "NaN"),
    ("numeric(37,-2)", "string", ""),
    ("numeric(3,5)", "decimal(5,5)", "NaN"),
    ("numeric(3,39)", "string", ""),
    ("text", "string", ""),
    ("character varying", "string", ""),
    ("character varying(63)", "string", ""),
    ("character(5)", "string", ""),
    ("bpchar", "string", ""),
    ("name", "string", ""),
    ("citext", "string", ""),
    ("public.citext", "string", ""),
    ('"my schema".citext', "string", ""),
    ("uuid", "string", ""),
    ("json", "string", ""),
    ("jsonb", "string", ""),
    ("bytea", "binary", ""),
    ("date", "date", INFINITE),
    ("timestamp without time zone", "timestamp_ntz", INFINITE),
    ("timestamp(3) without time zone", "timestamp_ntz", INFINITE),
    ("timestamp with time zone", "timestamp", INFINITE),
    ("timestamp(0) with time zone", "timestamp", INFINITE),
    ("time without time zone", "string", ""),
    ("time(6) without time zone", "string", ""),
]


@pytest.mark.parametrize(("text", "expected", "lost"), CARRIED)
def test_scalars(text: str, expected: str, lost: str) -> None:
    found = lake_type(SourceType(text))
    assert found == Mapped(expected)
    assert cannot_hold(text, expected) == lost
    assert str(DataType.parse(found.type)) == expected


@pytest.mark.parametrize(("text", "expected", "lost"), CARRIED)
def test_arrays_of_them(text: str, expected: str, lost: str) -> None:
    for dimensions in (0, 1):
        source = SourceType(f"{text}[]", element=text, dimensions=dimensions)
        found = lake_type(source)
        assert found.type == f"array<{expected}>"
        whole = f"{lost}; {SEVERAL}" if lost else SEVERAL
        assert cannot_hold(source.text, found.type) == whole, (
            "the plan says what becomes NULL"
        )
        assert str(DataType.parse(found.type)) == f"array<{expected}>"


def test_enums_and_their_arrays() -> None:
    assert lake_type(SourceType("shop.mood", kind="e")).type == "string"
    array = SourceType("shop.mood[]", element="shop.mood", element_kind="e")
    assert lake_type(array).type == "array<string>"


TEXTS = [
    *("money", "interval", "interval day to second(3)", "interval year", "xml", "inet"),
    *("cidr", "macaddr", "macaddr8", "tsvector", "tsquery", "bit(8)", '"bit"'),
    *("bit varying(8)", "bit varying", "time with time zone", '"char"', "point"),
    *("time(3) with time zone", "line", "lseg", "box", "path", "polygon", "circle"),
    *("jsonpath", "pg_lsn", "hstore", "public.hstore", "public.ltree", "x.vector(3)"),
    *("public.geometry(Point,4326)", "public.geography", "citext", "shop.citext"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_its_text_tells_exactly(text: str) -> None:
    assert lake_type(SourceType(text)) == Mapped("string")
    array = SourceType(f"{text}[]", element=text, dimensions=1)
    assert lake_type(array) == Mapped("array<string>")
    assert cannot_hold(array.text, "array<string>") == SEVERAL


@pytest.mark.parametrize("kind", ["c", "r", "m", "e"])
def test_composites_ranges_and_enums_are_text(kind: str) -> None:
    assert lake_type(SourceType("shop.thing", kind=kind)).type == "string"
    array = SourceType("shop.thing[]", element="shop.thing", element_kind=kind)
    assert lake_type(array).type == "array<string>"


@pytest.mark.parametrize("element", ["integer", "date", "money"])
def test_arrays_of_more_dimensions_are_text(element: str) -> None:
    source = SourceType(f"{element}[]", element=element, dimensions=2)
    assert lake_type(source) == Mapped("string")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SourceType("shop.strange"), "shop.strange"),
        (SourceType("regclass"), "inside the source"),
        (SourceType("anyarray", kind="p"), "pseudo"),
        (SourceType("a.b[]", element="a.b"), "an array of a.b"),
        (SourceType("a.b[]", element="a.b", dimensions=2), "an array of a.b"),
    ],
)
def test_what_is_not_carried_says_why(source: SourceType, words: str) -> None:
    found = lake_type(source)
    assert found.type == ""
    assert words in found.reason


@pytest.mark.parametrize(
    ("source", "lake"),
    [
        ("date", "date"),
        ("date[]", "array<date>"),
        ("numeric(5,2)", "decimal(5,2)"),
    ],
)
def test_values_that_the_lake_cannot_hold_are_known(source: str, lake: str) -> None:
    assert cannot_hold(source, lake)


@pytest.mark.parametrize(
    ("kind", "code"),
    [("", "unknown_kind"), ("kafka", "not_yet"), ("Postgresql", "unknown_kind")],
)
def test_no_kind_is_taken_for_another(kind: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        proposed_choice("date", "date", kind=kind)
    assert caught.value.code == code
