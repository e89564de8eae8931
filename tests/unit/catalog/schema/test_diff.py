"""Changes of columns: what each is called, whether it breaks, and the fingerprint."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from catalog.schema.diff import (
    columns_as_json,
    columns_from_json,
    diff,
    fingerprint,
    is_wider,
)
from catalog.schema.types import Column, TableSchema


def column(
    name: str = "a", source: str = "integer", lake: str = "int", **more
) -> Column:
    return Column(source_name=name, name=name, source_type=source, type=lake, **more)


def schema(*columns: Column) -> TableSchema:
    return TableSchema(columns)


@pytest.mark.parametrize(
    ("before", "after", "kind", "breaking"),
    [
        (("integer", "int"), ("bigint", "bigint"), "widened", False),
        (("bigint", "bigint"), ("integer", "int"), "narrowed", True),
        (("real", "float"), ("double precision", "double"), "widened", False),
        (
            ("numeric(5,2)", "decimal(5,2)"),
            ("numeric(9,2)", "decimal(9,2)"),
            "widened",
            False,
        ),
        (
            ("numeric(5,2)", "decimal(5,2)"),
            ("numeric(9,4)", "decimal(9,4)"),
            "widened",
            False,
        ),
        (
            ("numeric(5,2)", "decimal(5,2)"),
            ("numeric(5,3)", "decimal(5,3)"),
            "changed",
            True,
        ),
        (
            ("numeric(9,2)", "decimal(9,2)"),
            ("numeric(5,2)", "decimal(5,2)"),
            "narrowed",
            True,
        ),
        (("integer", "int"), ("text", "string"), "changed", True),
        (("integer[]", "array<int>"), ("bigint[]", "array<bigint>"), "widened", False),
        (("integer", "int"), ("integer[]", "array<int>"), "changed", True),
        (("text", "string"), ("money", ""), "changed", True),
        (("money", ""), ("text", "string"), "added", False),
        (("money", ""), ("interval", ""), "retyped", False),
        (("character varying(9)", "string"), ("text", "string"), "retyped", False),
        (("smallint", "int"), ("integer", "int"), "retyped", False),
        (
            ("date", "date"),
            ("timestamp without time zone", "timestamp_ntz"),
            "changed",
            True,
        ),
    ],
)
def test_type_changes(before, after, kind, breaking) -> None:
    (change,) = diff(schema(column("x", *before)), schema(column("x", *after)))
    assert (change.kind, change.column, change.is_breaking) == (kind, "x", breaking)
    assert "x" in str(change)


def test_added_removed_and_renamed() -> None:
    a, b, c = column("a"), column("b"), column("c")
    assert [x.kind for x in diff(schema(a), schema(a, b))] == ["added"]
    (gone,) = diff(schema(a, b), schema(a))
    assert (gone.kind, gone.is_breaking, gone.column) == ("removed", True, "b")
    assert [x.kind for x in diff(schema(a, b), schema(a, c))] == ["removed", "added"]


def test_order_and_comments_are_no_change() -> None:
    a, b = column("a"), column("b")
    assert diff(schema(a, b), schema(b, a)) == ()
    assert diff(schema(a), schema(dataclasses.replace(a, comment="x"))) == ()


def test_nullability() -> None:
    a = column("a")
    (change,) = diff(schema(a), schema(dataclasses.replace(a, nullable=False)))
    assert (change.kind, change.is_breaking) == ("nullability", False)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ((0, 0), "the key was (a) and is now ()"),
        ((0, 1), "the key was (a) and is now (b)"),
        ((1, 2), "the key was (a) and is now (a, b)"),
        ((2, 1), "the key was (a) and is now (b, a)"),
    ],
)
def test_a_changed_key_breaks(keys, text) -> None:
    old = schema(column("a", key=1), column("b"))
    new = schema(column("a", key=keys[0]), column("b", key=keys[1]))
    (change,) = diff(old, new)
    assert change.is_breaking
    assert str(change) == text


def test_widening_is_an_order() -> None:
    types = [
        "boolean", "int", "bigint", "float", "double", "string", "binary", "date",
        "timestamp", "timestamp_ntz", "decimal(5,2)", "decimal(9,2)", "decimal(9,4)",
        "decimal(38,4)", "array<int>", "array<bigint>",
    ]  # fmt: skip
    for a, b in itertools.product(types, types):
        assert not (is_wider(a, b) and is_wider(b, a))
        for c in types:
            if is_wider(a, b) and is_wider(b, c):
                assert is_wider(a, c)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"source_name": "b"}, True),
        ({"source_type": "bigint"}, True),
        ({"type": "bigint"}, True),
        ({"nullable": False}, True),
        ({"key": 1}, True),
        ({"comment": "x"}, False),
        ({"name": "x"}, False),
    ],
)
def test_fingerprint(change, differs) -> None:
    before = schema(column())
    after = schema(dataclasses.replace(column(), **change))
    assert (fingerprint(before) != fingerprint(after)) is differs
    assert fingerprint(before) == fingerprint(schema(column()))


def test_columns_as_json_and_back() -> None:
    value = schema(column("订单", key=1, nullable=False), column("b", "money", ""))
    assert columns_from_json(columns_as_json(value)) == value
