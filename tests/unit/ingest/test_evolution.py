"""What types a lake table has by the Avro schema of its commits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.contract.table import ColumnSpec
from ingest.lake.hudi.evolution import lacking_columns, other_types

DECIMAL = {
    "type": "fixed",
    "name": "fixed",
    "size": 6,
    "logicalType": "decimal",
    "precision": 12,
    "scale": 2,
}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
TEXTS = {"type": "array", "items": ["null", "string"]}


def other(there: Any, wanted: str) -> dict[str, str]:
    schema = json.dumps({"fields": [{"name": "c", "type": ["null", there]}]})
    return other_types(schema, (ColumnSpec("c", "c", "", wanted),))


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ({"type": "int", "logicalType": "date"}, "date"),
        (MICROS, "timestamp"),
        (LOCAL, "timestamp_ntz"),
        (DECIMAL, "decimal(12,2)"),
        (TEXTS, "array<string>"),
        # grown in place, here or there
        ("int", "bigint"),
        ("long", "int"),
        (DECIMAL, "decimal(20,2)"),
        # nobody knows
        ({"type": "long", "logicalType": "duration"}, "bigint"),
    ],
)
def test_the_same_type_is_no_other(there: Any, wanted: str) -> None:
    assert other(there, wanted) == {}


@pytest.mark.parametrize(
    ("there", "wanted", "named"),
    [
        ("int", "string", "int"),
        ("float", "double", "float"),
        (DECIMAL, "decimal(12,4)", "decimal(12,2)"),
        (MICROS, "timestamp_ntz", "timestamp"),
        (TEXTS, "array<int>", "array<string>"),
        ("string", "int", "string"),
    ],
)
def test_another_type_is_named(there: Any, wanted: str, named: str) -> None:
    assert other(there, wanted) == {"c": named}


def test_a_column_that_is_not_there_has_no_other_type() -> None:
    columns = (ColumnSpec("d", "d", "integer", "int"),)
    schema = json.dumps({"fields": [{"name": "c", "type": "int"}]})
    assert other_types(schema, columns) == other_types("", columns) == {}
    assert lacking_columns(schema, columns) == ("d",)
