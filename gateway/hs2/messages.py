"""Requests and replies of HiveServer2, field by field as its Thrift file has them."""

# `wire` is dataclasses.field under a shorter name, so a call as default is meant.
# ruff: noqa: RUF009
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.hs2.binary import (
    BOOL,
    DOUBLE,
    I16,
    I32,
    I64,
    TEXT,
    ListOf,
    MapOf,
    Opaque,
    list_of,
    wire,
)
from gateway.hs2.values import OK, OperationHandle, SessionHandle, Status, TableSchema

_TEXTS = MapOf(TEXT, TEXT)
RESULTS_FIELD = 3


@dataclass(frozen=True, slots=True)
class OfSession:
    session: SessionHandle = wire(1, SessionHandle, SessionHandle())


@dataclass(frozen=True, slots=True)
class InSchema(OfSession):
    catalog: str | None = wire(2, TEXT)
    schema: str | None = wire(3, TEXT)


@dataclass(frozen=True, slots=True)
class OfOperation:
    operation: OperationHandle = wire(1, OperationHandle, OperationHandle())


@dataclass(frozen=True, slots=True)
class OpenSession:
    client_protocol: int = wire(1, I32, 0)
    username: str | None = wire(2, TEXT)
    password: str | None = wire(3, TEXT)
    configuration: Mapping[str, str] | None = wire(4, _TEXTS)

    def __repr__(self) -> str:
        return f"OpenSession(client_protocol={self.client_protocol})"


@dataclass(frozen=True, slots=True)
class OpenSessionReply:
    status: Status = wire(1, Status, OK)
    protocol: int = wire(2, I32, 0)
    session: SessionHandle | None = wire(3, SessionHandle)
    configuration: Mapping[str, str] | None = wire(4, _TEXTS)


class CloseSession(OfSession): ...


@dataclass(frozen=True, slots=True)
class StatusReply:
    """The reply of every call that has nothing but a status to say."""

    status: Status = wire(1, Status, OK)


@dataclass(frozen=True, slots=True)
class GetInfo(OfSession):
    kind: int = wire(2, I32, 0)


@dataclass(frozen=True, slots=True)
class InfoValue:
    text: str | None = wire(1, TEXT)
    small: int | None = wire(2, I16)
    bitmask: int | None = wire(3, I32)
    flag: int | None = wire(4, I32)
    binary: int | None = wire(5, I32)
    length: int | None = wire(6, I64)


@dataclass(frozen=True, slots=True)
class GetInfoReply:
    status: Status = wire(1, Status, OK)
    value: InfoValue = wire(2, InfoValue, InfoValue(text=""))


@dataclass(frozen=True, slots=True)
class ExecuteStatement(OfSession):
    statement: str = wire(2, TEXT, "")
    overlay: Mapping[str, str] | None = wire(3, _TEXTS)
    run_async: bool = wire(4, BOOL, False)  # noqa: FBT003
    timeout_seconds: int = wire(5, I64, 0)


@dataclass(frozen=True, slots=True)
class OperationReply:
    """The reply of every call that starts an operation."""

    status: Status = wire(1, Status, OK)
    operation: OperationHandle | None = wire(2, OperationHandle)


class GetTypeInfo(OfSession): ...


class GetCatalogs(OfSession): ...


class GetSchemas(InSchema): ...


@dataclass(frozen=True, slots=True)
class GetTables(InSchema):
    table: str | None = wire(4, TEXT)
    types: tuple[str, ...] | None = wire(5, list_of(TEXT))


class GetTableTypes(OfSession): ...


@dataclass(frozen=True, slots=True)
class GetColumns(InSchema):
    table: str | None = wire(4, TEXT)
    column: str | None = wire(5, TEXT)


@dataclass(frozen=True, slots=True)
class GetFunctions(InSchema):
    function: str = wire(4, TEXT, "%")


@dataclass(frozen=True, slots=True)
class GetPrimaryKeys(InSchema):
    table: str | None = wire(4, TEXT)


@dataclass(frozen=True, slots=True)
class GetCrossReference(OfSession):
    parent_schema: str | None = wire(3, TEXT)
    parent_table: str | None = wire(4, TEXT)
    foreign_schema: str | None = wire(6, TEXT)
    foreign_table: str | None = wire(7, TEXT)


@dataclass(frozen=True, slots=True)
class GetOperationStatus(OfOperation):
    wants_progress: bool = wire(2, BOOL, False)  # noqa: FBT003


@dataclass(frozen=True, slots=True)
class Progress:
    """What beeline draws; it needs every field."""

    headers: tuple[str, ...] = wire(1, list_of(TEXT), ())
    rows: tuple[tuple[str, ...], ...] = wire(2, ListOf(list_of(TEXT)), ())
    fraction: float = wire(3, DOUBLE, 0.0)
    status: int = wire(4, I32, 2)
    footer: str = wire(5, TEXT, "")
    started_ms: int = wire(6, I64, 0)


@dataclass(frozen=True, slots=True)
class GetOperationStatusReply:
    status: Status = wire(1, Status, OK)
    state: int | None = wire(2, I32)
    sql_state: str | None = wire(3, TEXT)
    error_code: int | None = wire(4, I32)
    message: str | None = wire(5, TEXT)
    task_status: str | None = wire(6, TEXT)
    started_ms: int | None = wire(7, I64)
    completed_ms: int | None = wire(8, I64)
    has_result_set: bool | None = wire(9, BOOL)
    progress: Progress | None = wire(10, Progress)


class CancelOperation(OfOperation): ...


class CloseOperation(OfOperation): ...


class GetResultSetMetadata(OfOperation): ...


@dataclass(frozen=True, slots=True)
class GetResultSetMetadataReply:
    status: Status = wire(1, Status, OK)
    schema: TableSchema | None = wire(2, TableSchema)


@dataclass(frozen=True, slots=True)
class FetchResults(OfOperation):
    orientation: int = wire(2, I32, 0)
    max_rows: int = wire(3, I64, 0)
    fetch_type: int = wire(4, I16, 0)


@dataclass(frozen=True, slots=True)
class FetchResultsReply:
    """`results` is an encoded TRowSet: from the engine, or from `rowset`."""

    status: Status = wire(1, Status, OK)
    has_more_rows: bool | None = wire(2, BOOL)
    results: bytes | memoryview | None = wire(RESULTS_FIELD, Opaque())


class GetDelegationToken(OfSession): ...


class CancelDelegationToken(OfSession): ...


class RenewDelegationToken(OfSession): ...


class GetQueryId(OfOperation): ...


@dataclass(frozen=True, slots=True)
class GetQueryIdReply:
    query_id: str = wire(1, TEXT, "")


@dataclass(frozen=True, slots=True)
class SetClientInfo(OfSession):
    configuration: Mapping[str, str] | None = wire(2, _TEXTS)


Request = (
    OpenSession
    | CloseSession
    | GetInfo
    | ExecuteStatement
    | GetTypeInfo
    | GetCatalogs
    | GetSchemas
    | GetTables
    | GetTableTypes
    | GetColumns
    | GetFunctions
    | GetPrimaryKeys
    | GetCrossReference
    | GetOperationStatus
    | CancelOperation
    | CloseOperation
    | GetResultSetMetadata
    | FetchResults
    | GetDelegationToken
    | CancelDelegationToken
    | RenewDelegationToken
    | GetQueryId
    | SetClientInfo
)
Reply = (
    OpenSessionReply
    | StatusReply
    | GetInfoReply
    | OperationReply
    | GetOperationStatusReply
    | GetResultSetMetadataReply
    | FetchResultsReply
    | GetQueryIdReply
)
