"""HiveServer2's enumerations and the structs that requests and replies share."""

# `wire` is dataclasses.field under a shorter name, so a call as default is meant.
# ruff: noqa: RUF009
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from gateway.hs2.binary import (
    BINARY,
    BOOL,
    DOUBLE,
    I32,
    TEXT,
    MapOf,
    list_of,
    struct_of,
    wire,
)

V1, V6, V8, V10, V11 = 0, 5, 7, 9, 10
SERVER_VERSION = V10


class StatusCode(IntEnum):
    SUCCESS = 0
    SUCCESS_WITH_INFO = 1
    STILL_EXECUTING = 2
    ERROR = 3
    INVALID_HANDLE = 4


class State(IntEnum):
    INITIALIZED = 0
    RUNNING = 1
    FINISHED = 2
    CANCELED = 3
    CLOSED = 4
    ERROR = 5
    UNKNOWN = 6
    PENDING = 7
    TIMEDOUT = 8


class OperationType(IntEnum):
    EXECUTE_STATEMENT = 0
    GET_TYPE_INFO = 1
    GET_CATALOGS = 2
    GET_SCHEMAS = 3
    GET_TABLES = 4
    GET_TABLE_TYPES = 5
    GET_COLUMNS = 6
    GET_FUNCTIONS = 7
    UNKNOWN = 8


class FetchOrientation(IntEnum):
    NEXT = 0
    PRIOR = 1
    RELATIVE = 2
    ABSOLUTE = 3
    FIRST = 4
    LAST = 5


class TypeId(IntEnum):
    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    INT = 3
    BIGINT = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    TIMESTAMP = 8
    BINARY = 9
    ARRAY = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    USER_DEFINED = 14
    DECIMAL = 15
    NULL = 16
    DATE = 17
    VARCHAR = 18
    CHAR = 19
    INTERVAL_YEAR_MONTH = 20
    INTERVAL_DAY_TIME = 21


@dataclass(frozen=True, slots=True)
class Handle:
    """A random identifier and its secret, 16 bytes each."""

    guid: bytes = wire(1, BINARY, b"")
    secret: bytes = wire(2, BINARY, b"")


@dataclass(frozen=True, slots=True)
class SessionHandle:
    id: Handle = wire(1, Handle, Handle())


@dataclass(frozen=True, slots=True)
class OperationHandle:
    id: Handle = wire(1, Handle, Handle())
    type: int = wire(2, I32, OperationType.UNKNOWN)
    has_result_set: bool = wire(3, BOOL, False)  # noqa: FBT003
    modified_rows: float | None = wire(4, DOUBLE)


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of a call; SUCCESS unless said otherwise."""

    code: int = wire(1, I32, StatusCode.SUCCESS)
    info: tuple[str, ...] | None = wire(2, list_of(TEXT))
    sql_state: str | None = wire(3, TEXT)
    error_code: int | None = wire(4, I32)
    message: str | None = wire(5, TEXT)


OK = Status()


CLIENT_EXCEPTION = "org.apache.hive.service.cli.HiveSQLException"


def failure(message: str, *, sql_state: str = "HY000", code: int = 0) -> Status:
    """Return an ERROR status.

    Hive JDBC makes an exception of `info` before it shows `message`, and fails on
    anything but `*class:message:frames:last frame`.
    """
    return Status(
        code=StatusCode.ERROR,
        info=(f"*{CLIENT_EXCEPTION}:{message}:0:-1",),
        sql_state=sql_state,
        error_code=code,
        message=message,
    )


@dataclass(frozen=True, slots=True)
class QualifierValue:
    number: int | None = wire(1, I32)
    text: str | None = wire(2, TEXT)


@dataclass(frozen=True, slots=True)
class TypeQualifiers:
    qualifiers: Mapping[str, Any] = wire(1, MapOf(TEXT, struct_of(QualifierValue)))


@dataclass(frozen=True, slots=True)
class PrimitiveEntry:
    type: int = wire(1, I32, TypeId.STRING)
    qualifiers: TypeQualifiers | None = wire(2, TypeQualifiers)


@dataclass(frozen=True, slots=True)
class TypeEntry:
    primitive: PrimitiveEntry | None = wire(1, PrimitiveEntry)


@dataclass(frozen=True, slots=True)
class TypeDesc:
    types: tuple[TypeEntry, ...] = wire(1, list_of(TypeEntry), ())


@dataclass(frozen=True, slots=True)
class ColumnDesc:
    name: str = wire(1, TEXT, "")
    type: TypeDesc = wire(2, TypeDesc, TypeDesc())
    position: int = wire(3, I32, 0)
    comment: str | None = wire(4, TEXT)

    @property
    def type_id(self) -> int:
        """The column's TypeId; STRING when the description is not primitive."""
        primitive = self.type.types[0].primitive if self.type.types else None
        return primitive.type if primitive else TypeId.STRING

    @property
    def qualifiers(self) -> dict[str, int]:
        """Numeric qualifiers: precision, scale, characterMaximumLength."""
        primitive = self.type.types[0].primitive if self.type.types else None
        if primitive is None or primitive.qualifiers is None:
            return {}
        items = primitive.qualifiers.qualifiers.items()
        return {key: value.number for key, value in items if value.number is not None}


@dataclass(frozen=True, slots=True)
class TableSchema:
    columns: tuple[ColumnDesc, ...] = wire(1, list_of(ColumnDesc), ())


def column_desc(
    name: str,
    type_id: int,
    position: int,
    *,
    qualifiers: Mapping[str, int] | None = None,
    comment: str = "",
) -> ColumnDesc:
    """Describe one result column; `position` counts from 1."""
    extra = None
    if qualifiers:
        values = {key: QualifierValue(number=n) for key, n in qualifiers.items()}
        extra = TypeQualifiers(qualifiers=values)
    entry = TypeEntry(primitive=PrimitiveEntry(type=type_id, qualifiers=extra))
    return ColumnDesc(
        name=name, type=TypeDesc(types=(entry,)), position=position, comment=comment
    )
