"""Whether a lake table has the columns that a spec wants, as wide as it wants them.

Pure. It reads the Avro schema that a commit carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.schema.types import DataType
from ingest.contract.table import ColumnSpec


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
