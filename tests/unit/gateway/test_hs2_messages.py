"""Our codec against the public Python bindings as the oracle, both ways."""

from __future__ import annotations

import pytest
from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.hs2 import calls, messages, values
from gateway.hs2.binary import Reader, decode, encode
from gateway.hs2.errors import MessageError, ProtocolError, RemoteFault
from gateway.hs2.values import Handle, OperationHandle, SessionHandle

GUID, SECRET = bytes(range(16)), bytes(range(16, 32))
SESSION = SessionHandle(id=Handle(guid=GUID, secret=SECRET))
OPERATION = OperationHandle(
    id=Handle(guid=GUID, secret=SECRET), type=0, has_result_set=True
)
T_HANDLE = ttypes.THandleIdentifier(guid=GUID, secret=SECRET)
T_SESSION = ttypes.TSessionHandle(sessionId=T_HANDLE)
T_OPERATION = ttypes.TOperationHandle(
    operationId=T_HANDLE, operationType=0, hasResultSet=True
)


def oracle(value) -> bytes:
    buffer = TMemoryBuffer()
    value.write(TBinaryProtocol(buffer))
    return buffer.getvalue()


def oracle_read(cls, data):
    value = cls()
    value.read(TBinaryProtocol(TMemoryBuffer(bytes(data))))
    return value


PAIRS = [
    (
        messages.OpenSession(
            client_protocol=5, username="a", password="b", configuration={"k": "ü"}
        ),
        ttypes.TOpenSessionReq(
            client_protocol=5, username="a", password="b", configuration={"k": "ü"}
        ),
    ),
    (
        messages.OpenSessionReply(
            protocol=9, session=SESSION, configuration={"x": "1"}
        ),
        ttypes.TOpenSessionResp(
            status=ttypes.TStatus(statusCode=0),
            serverProtocolVersion=9,
            sessionHandle=T_SESSION,
            configuration={"x": "1"},
        ),
    ),
    (
        messages.ExecuteStatement(
            session=SESSION, statement="select '你好'", overlay={}, run_async=True
        ),
        ttypes.TExecuteStatementReq(
            sessionHandle=T_SESSION,
            statement="select '你好'",
            confOverlay={},
            runAsync=True,
            queryTimeout=0,
        ),
    ),
    (
        messages.OperationReply(status=values.failure("no", sql_state="42P01", code=7)),
        ttypes.TExecuteStatementResp(
            status=ttypes.TStatus(
                statusCode=3,
                infoMessages=[f"*{values.CLIENT_EXCEPTION}:no:0:-1"],
                sqlState="42P01",
                errorCode=7,
                errorMessage="no",
            )
        ),
    ),
    (
        messages.GetOperationStatusReply(
            state=2,
            started_ms=1,
            completed_ms=2,
            has_result_set=False,
            progress=messages.Progress(
                headers=("a",), rows=(("1",),), fraction=0.5, footer="f", started_ms=3
            ),
        ),
        ttypes.TGetOperationStatusResp(
            status=ttypes.TStatus(statusCode=0),
            operationState=2,
            operationStarted=1,
            operationCompleted=2,
            hasResultSet=False,
            progressUpdateResponse=ttypes.TProgressUpdateResp(
                headerNames=["a"],
                rows=[["1"]],
                progressedPercentage=0.5,
                status=2,
                footerSummary="f",
                startTime=3,
            ),
        ),
    ),
    (
        messages.FetchResults(operation=OPERATION, max_rows=10, fetch_type=1),
        ttypes.TFetchResultsReq(
            operationHandle=T_OPERATION, orientation=0, maxRows=10, fetchType=1
        ),
    ),
    (
        messages.GetTables(session=SESSION, schema="%", types=("TABLE",)),
        ttypes.TGetTablesReq(
            sessionHandle=T_SESSION, schemaName="%", tableTypes=["TABLE"]
        ),
    ),
    (
        messages.GetInfoReply(value=messages.InfoValue(small=3)),
        ttypes.TGetInfoResp(
            status=ttypes.TStatus(statusCode=0),
            infoValue=ttypes.TGetInfoValue(smallIntValue=3),
        ),
    ),
    (
        messages.GetResultSetMetadataReply(
            schema=values.TableSchema(
                columns=(
                    values.column_desc(
                        "d", 15, 1, qualifiers={"precision": 5}, comment="c"
                    ),
                )
            )
        ),
        ttypes.TGetResultSetMetadataResp(
            status=ttypes.TStatus(statusCode=0),
            schema=ttypes.TTableSchema(
                columns=[
                    ttypes.TColumnDesc(
                        columnName="d",
                        position=1,
                        comment="c",
                        typeDesc=ttypes.TTypeDesc(
                            types=[
                                ttypes.TTypeEntry(
                                    primitiveEntry=ttypes.TPrimitiveTypeEntry(
                                        type=15,
                                        typeQualifiers=ttypes.TTypeQualifiers(
                                            qualifiers={
                                                "precision": ttypes.TTypeQualifierValue(
                                                    i32Value=5
                                                )
                                            }
                                        ),
                                    )
                                )
                            ]
                        ),
                    )
                ]
            ),
        ),
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda v: type(v).__name__)
def test_same_bytes_and_same_meaning_as_the_public_bindings(ours, theirs):
    data = encode(ours)
    assert data == oracle(theirs)
    assert decode(type(ours), Reader(oracle(theirs))) == ours
    assert oracle_read(type(theirs), data) == theirs


@pytest.mark.parametrize("name", sorted(calls.REQUESTS))
def test_every_method_of_the_public_bindings_is_known(name):
    newer_than_the_bindings = {"GetQueryId", "SetClientInfo"}
    assert hasattr(TCLIService.Client, name) or name in newer_than_the_bindings


def test_only_log_reading_of_old_clients_is_left_out():
    methods = {n for n in vars(TCLIService.Iface) if not n.startswith("_")}
    assert methods - set(calls.REQUESTS) == {"GetLog"}


def test_a_call_is_read_by_the_public_bindings_and_their_call_by_us():
    buffer = TMemoryBuffer()
    client = TCLIService.Client(TBinaryProtocol(buffer))
    client.send_CloseSession(ttypes.TCloseSessionReq(sessionHandle=T_SESSION))
    data = buffer.getvalue()
    reader = Reader(data)
    envelope = calls.read_envelope(reader)
    request = calls.decode_request(envelope, reader)
    assert request == messages.CloseSession(session=SESSION)
    assert calls.encode_call(request, sequence=envelope.sequence) == data


def test_a_reply_and_a_fault_are_read_by_the_public_bindings():
    body = calls.encode_reply("CloseSession", messages.StatusReply(), sequence=4)
    protocol = TBinaryProtocol(TMemoryBuffer(bytes(body)))
    assert protocol.readMessageBegin() == ("CloseSession", TMessageType.REPLY, 4)
    result = TCLIService.CloseSession_result()
    result.read(protocol)
    assert result.success.status.statusCode == 0
    assert (
        calls.decode_reply(bytes(body), messages.CloseSession, sequence=4)
        == messages.StatusReply()
    )
    fault = calls.encode_fault("GetLog", "no", kind=1, sequence=4)
    with pytest.raises(RemoteFault) as raised:
        calls.decode_reply(bytes(fault), messages.CloseSession, sequence=4)
    assert (raised.value.message, raised.value.kind) == ("no", 1)


def test_a_reply_to_another_call_is_not_taken():
    body = calls.encode_reply("CloseSession", messages.StatusReply(), sequence=4)
    with pytest.raises(ProtocolError):
        calls.decode_reply(bytes(body), messages.CloseSession, sequence=5)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0b\x00\x01\x7f\xff\xff\xff", "a text longer than the message"),
        (b"\x0b\x00\x02\xff\xff\xff\xff", "a negative length"),
        (b"\x0d\x00\x04\x0b\x0b\x7f\xff\xff\xff", "a map of two thousand million"),
        (b"\x0b\x00\x02\x00\x00\x00\x01\xff\x00", "a text that is not UTF-8"),
        (b"\x0c\x00\x63" * 40 + b"\0" * 41, "structs forty deep"),
        (b"\x63\x00\x01", "a type that does not exist"),
        (b"", "nothing"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_hostile_bytes_are_a_message_error(data, why):
    with pytest.raises(MessageError):
        decode(messages.OpenSession, Reader(data))


def test_unknown_fields_and_fields_of_another_type_are_passed_over():
    unknown = b"\x0f\x00\x63\x0c\x00\x00\x00\x01\x00" + b"\x0a\x00\x02" + b"\0" * 8
    known = b"\x08\x00\x01\x00\x00\x00\x07\x00"
    assert decode(messages.OpenSession, Reader(unknown + known)) == (
        messages.OpenSession(client_protocol=7)
    )


@pytest.mark.parametrize("message", ["no", "a: b", ":", "", "two\nlines: of it"])
def test_hive_jdbc_can_read_the_reason_of_a_failure(message):
    """As its HiveSQLException.toStackTrace cuts it: class, message, frames, last."""
    (detail,) = values.failure(message).info
    first, last = detail.index(":"), detail.rindex(":")
    middle = detail[:last].rindex(":")
    assert detail[1:first].endswith(".HiveSQLException")
    assert detail[first + 1 : middle] == message
    assert (int(detail[middle + 1 : last]), int(detail[last + 1 :])) == (0, -1)
