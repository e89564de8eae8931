"""The part of a lake table that may never change by accident, as one value.

Hudi stores only some of it and checks less: a different bucket count silently
duplicates rows. So the identity travels in every commit and is compared before
every write. It must not know paths, leases or jobs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import InvalidRequest, TerminalError
from core.sentences import Sentence, joined
from ingest.contract.members import as_data, value_of
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.lake.hudi.properties import line_of
from ingest.planning.partitions import BY_DAY, DAY, PARTITION_TYPES

SEQ = "_sluice_seq"
DELETED = "_sluice_deleted"
KEY = "_sluice_key"
COUNT = "_sluice_count"
LOCK_PROVIDER = "io.sluice.lake.FencedLockProvider"
SHARED_LOCK_PROVIDER = "io.sluice.lake.SharedFencedLockProvider"
TABLE_VERSION = 9
PARTIAL = "IGNORE_DEFAULTS"

# Hudi renders other key types differently in its two writers (timestamps as text
# in one, as microseconds in the other) and refuses empty strings, so their keys
# are carried in a text column of our own.
_NATIVE_KEY_TYPES = frozenset({"int", "bigint"})


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """Everything two writers of one table must agree on.

    record_key, partition_by   lake column names
    buckets                    file groups per partition, fixed for life
    partial_update_mode        "" = a newer row replaces the older one whole, PARTIAL =
                               its NULLs leave what the older one has
    """

    record_key: tuple[str, ...]
    buckets: int
    partition_by: tuple[str, ...] = ()
    ordering: str = SEQ
    merge_mode: str = "EVENT_TIME_ORDERING"
    delete_field: str = DELETED
    delete_marker: str = "true"
    index: str = "BUCKET/SIMPLE"
    table_version: int = TABLE_VERSION
    metadata_table: bool = False
    lock_provider: str = LOCK_PROVIDER
    partial_update_mode: str = ""

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = as_data(self)
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TableIdentity:
        """ValueError when the shape differs."""
        return value_of(cls, data)


def identity_for(table: TableSpec) -> TableIdentity:
    """The identity of the lake table that this spec describes.

    InvalidRequest `bad_partition` for partition columns that are not carried or
    whose values Hudi's two writers put into different folders.
    """
    return TableIdentity(
        record_key=(key_column(table),),
        buckets=table.buckets,
        partition_by=partition_columns(table),
        lock_provider=_lock_provider(table),
        partial_update_mode=PARTIAL if table.updates == "partial" else "",
    )


def partition_columns(table: TableSpec) -> tuple[str, ...]:
    """Lake columns whose values are the folders: the chosen ones, and for the day of a
    timestamp one of our own. Errors as of `identity_for`."""
    columns = {c.source_name: c for c in table.columns}
    return tuple(
        _partition_column(name, columns.get(name)) for name in table.partition_by
    )


def _partition_column(name: str, column: ColumnSpec | None) -> str:
    if column is not None and column.type in PARTITION_TYPES:
        return column.name
    if column is not None and column.type in BY_DAY:
        return DAY
    raise InvalidRequest(
        "column %(name)s (%(type)s) cannot partition a lake table",
        types=", ".join((*PARTITION_TYPES, *BY_DAY)),
        name=name,
        type=column.type if column else Sentence("not synced"),
        code="bad_partition",
        hint="partition by a column of type %(types)s",
    )


def _lock_provider(table: TableSpec) -> str:
    providers = {"": LOCK_PROVIDER, "zookeeper": SHARED_LOCK_PROVIDER}
    if table.lock not in providers:
        raise InvalidRequest(
            "no lock is called %(lock)s", lock=table.lock, code="unknown_lock"
        )
    return providers[table.lock]


def key_column(table: TableSpec) -> str:
    """The lake column that is the record key: the source's own, or `_sluice_key`."""
    if table.row_hash or len(table.key) != 1:
        return KEY
    column = next(c for c in table.columns if c.source_name == table.key[0])
    is_native = column.type in _NATIVE_KEY_TYPES or column.source_type == "uuid"
    return column.name if is_native else KEY


_DIFFERS = "%(name)s is %(lake)s in the lake, %(plan)s in the plan"


def drift(pinned: TableIdentity, wanted: TableIdentity) -> tuple[str, ...]:
    """One sentence per field that differs, naming both values."""
    return tuple(
        Sentence(
            _DIFFERS,
            name=f.name,
            lake=repr(getattr(pinned, f.name)),
            plan=repr(getattr(wanted, f.name)),
        )
        for f in dataclasses.fields(pinned)
        if getattr(pinned, f.name) != getattr(wanted, f.name)
    )


def property_drift(
    properties: Mapping[str, str], wanted: TableIdentity
) -> tuple[str, ...]:
    """The same against `hoodie.properties`, which holds only part of an identity."""
    expected = properties_of(wanted)
    return tuple(
        Sentence(
            _DIFFERS, name=name, lake=repr(properties.get(name, "")), plan=repr(value)
        )
        for name, value in expected.items()
        if properties.get(name, "") != value
    )


def put_back(text: str, wanted: TableIdentity) -> str:
    """`hoodie.properties` with the identity's own values again. What says how the
    files are written, type and version of the table, stays as it is."""
    missing = {name: value for name, value in _own_properties(wanted).items() if value}
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0].strip()
        if name not in _own_properties(wanted):
            lines.append(line)
        elif name in missing:
            lines.append(line_of(name, missing.pop(name)))
    lines += [line_of(name, value) for name, value in missing.items()]
    return "\n".join(lines) + "\n"


def properties_of(wanted: TableIdentity) -> dict[str, str]:
    """What `hoodie.properties` says of an identity."""
    return {
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(wanted.table_version),
        **_own_properties(wanted),
    }


def _own_properties(wanted: TableIdentity) -> dict[str, str]:
    """Those that only say what rows mean, not how files are written."""
    return {
        "hoodie.table.recordkey.fields": ",".join(wanted.record_key),
        "hoodie.table.ordering.fields": wanted.ordering,
        "hoodie.table.partition.fields": ",".join(wanted.partition_by),
        "hoodie.record.merge.mode": wanted.merge_mode,
        "hoodie.table.partial.update.mode": wanted.partial_update_mode,
    }


def refuse_drift(table: str, differences: Iterable[str]) -> None:
    """TerminalError `identity_drift` when there is any difference."""
    found = tuple(differences)
    if found:
        raise TerminalError(
            "lake table %(table)s is not what the plan says: %(found)s."
            " Nothing was written",
            table=table,
            found=joined(found),
            code="identity_drift",
            hint="plan the table again, or resync it into a new lake table",
            facts={"differences": list(found)},
        )


def shares_lock(identity: Mapping[str, Any]) -> bool:
    """Whether writers in several drivers wait for each other at this table."""
    return identity.get("lock_provider") == SHARED_LOCK_PROVIDER
