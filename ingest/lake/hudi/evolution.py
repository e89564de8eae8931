"""Whether a lake table has the columns that a spec wants, in the types it wants.

Pure. It reads the Avro schema that a commit carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.schema.types import DataType
from catalog.schema.widening import widens_in_place
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.lake.hudi.identity import DELETED, KEY, SEQ, key_column, partition_columns
from ingest.planning.partitions import DAY

_SIMPLE = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_LOGICAL = {
    "date": "date",
    "timestamp-micros": "timestamp",
    "local-timestamp-micros": "timestamp_ntz",
}


def lacking_columns(schema: str, columns: Sequence[ColumnSpec]) -> tuple[str, ...]:
    """Lake names of columns that a table of this Avro schema lacks, or has narrower
    than the spec; () for a commit that carries no schema."""
    if not schema:
        return ()
    found = {f["name"]: _plain(f["type"]) for f in json.loads(schema)["fields"]}
    return tuple(
        column.name
        for column in columns
        if column.name not in found or _is_narrower(found[column.name], column.type)
    )


def _plain(kind: Any) -> Any:
    """The type without NULL."""
    if isinstance(kind, list):
        return next((one for one in kind if one != "null"), "null")
    return kind


def _is_narrower(found: Any, wanted: str) -> bool:
    """Only of types that can be widened in place."""
    kind = DataType.parse(wanted)
    if kind.name == "bigint":
        return bool(found == "int")
    if kind.name == "decimal" and isinstance(found, Mapping):
        return int(found.get("precision", kind.precision)) < kind.precision
    return False


def has_columns(schema: str, table: TableSpec) -> bool:
    """Whether a lake table of this Avro schema has exactly the columns of its spec, in
    their types, and Sluice's own."""
    if not schema:
        return False
    found = {f["name"]: _lake_type(f["type"]) for f in json.loads(schema)["fields"]}
    columns = (*table.columns, *table.kept)
    wanted = {column.name: column.type for column in columns}
    own = {SEQ: "bigint", DELETED: "boolean"}
    if key_column(table) == KEY:
        own[KEY] = "string"
    if DAY in partition_columns(table):
        own[DAY] = "date"
    return found == {**wanted, **own}


def other_types(schema: str, columns: Sequence[ColumnSpec]) -> dict[str, str]:
    """Lake column → its type in a table of this Avro schema, where values of that type
    would read otherwise, or not at all, as those of the spec: an int as a text, a float
    as a double. What is not known is no difference, nor is what only grew in place."""
    if not schema:
        return {}
    found = {f["name"]: _lake_type(f["type"]) for f in json.loads(schema)["fields"]}
    return {
        column.name: there
        for column in columns
        if (there := found.get(column.name, ""))
        and there != column.type
        and not widens_in_place(there, column.type)
        and not widens_in_place(column.type, there)
    }


def _lake_type(kind: Any) -> str:
    """ "" = not known."""
    plain = _plain(kind)
    if isinstance(plain, str):
        return _SIMPLE.get(plain, "")
    logical = plain.get("logicalType", "")
    if logical == "decimal":
        return f"decimal({plain['precision']},{plain.get('scale', 0)})"
    if plain.get("type") == "array":
        element = _lake_type(plain.get("items"))
        return f"array<{element}>" if element else ""
    return _LOGICAL.get(logical, "")
