"""The envelope around requests and replies: name, kind, sequence number.

Serves both sides: the gateway answers clients with it and calls engines with it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

from gateway.hs2 import messages
from gateway.hs2.binary import I32, STOP, TEXT, Reader, decode, encode, struct_of, wire
from gateway.hs2.errors import MessageError, ProtocolError, RemoteFault

CALL, REPLY, EXCEPTION, ONEWAY = 1, 2, 3, 4
UNKNOWN_METHOD, PROTOCOL_ERROR, INTERNAL_ERROR = 1, 7, 6
MAX_NAME = 128
_VERSION = 0x80010000
_HEAD = struct.Struct("!II")
_SEQUENCE = struct.Struct("!i")
_FIELD_OF_STRUCT = struct.Struct("!bh")
_CODE, _NUMBER, _STRUCT = struct.Struct("!b"), struct.Struct("!h"), 12

REPLIES: dict[type, type] = {
    messages.OpenSession: messages.OpenSessionReply,
    messages.CloseSession: messages.StatusReply,
    messages.GetInfo: messages.GetInfoReply,
    messages.ExecuteStatement: messages.OperationReply,
    messages.GetTypeInfo: messages.OperationReply,
    messages.GetCatalogs: messages.OperationReply,
    messages.GetSchemas: messages.OperationReply,
    messages.GetTables: messages.OperationReply,
    messages.GetTableTypes: messages.OperationReply,
    messages.GetColumns: messages.OperationReply,
    messages.GetFunctions: messages.OperationReply,
    messages.GetPrimaryKeys: messages.OperationReply,
    messages.GetCrossReference: messages.OperationReply,
    messages.GetOperationStatus: messages.GetOperationStatusReply,
    messages.CancelOperation: messages.StatusReply,
    messages.CloseOperation: messages.StatusReply,
    messages.GetResultSetMetadata: messages.GetResultSetMetadataReply,
    messages.FetchResults: messages.FetchResultsReply,
    messages.GetDelegationToken: messages.StatusReply,
    messages.CancelDelegationToken: messages.StatusReply,
    messages.RenewDelegationToken: messages.StatusReply,
    messages.GetQueryId: messages.GetQueryIdReply,
    messages.SetClientInfo: messages.StatusReply,
}
REQUESTS: dict[str, type] = {cls.__name__: cls for cls in REPLIES}


@dataclass(frozen=True, slots=True)
class Envelope:
    """The head of a message: which method, which kind, which sequence number."""

    name: str
    kind: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Fault:
    """TApplicationException."""

    message: str = wire(1, TEXT, "")
    kind: int = wire(2, I32, 0)


def read_envelope(reader: Reader) -> Envelope:
    """Read a message's head; ProtocolError when it is not strict binary Thrift."""
    try:
        head, size = reader.unpack(_HEAD)
        if head & 0xFFFF0000 != _VERSION or size > MAX_NAME:
            raise ProtocolError(
                "a message does not begin like strict binary Thrift",
                hint="use TBinaryProtocol; the compact protocol is not spoken here",
            )
        name = reader.take(size).decode("ascii", "replace")
        (sequence,) = reader.unpack(_SEQUENCE)
    except MessageError as error:
        raise ProtocolError(error.message) from None
    return Envelope(name, head & 0xFF, sequence)


def _begin(name: str, kind: int, sequence: int) -> bytearray:
    encoded = name.encode("ascii", "replace")
    out = bytearray(_HEAD.pack(_VERSION | kind, len(encoded)))
    out += encoded
    out += _SEQUENCE.pack(sequence)
    return out


def _append(out: bytearray, field: int, body: object) -> bytearray:
    out += _FIELD_OF_STRUCT.pack(_STRUCT, field)
    struct_of(type(body)).write(out, body)
    out.append(STOP)
    return out


def encode_call(request: messages.Request, *, sequence: int) -> bytearray:
    return _append(_begin(type(request).__name__, CALL, sequence), 1, request)


def encode_reply(name: str, reply: messages.Reply, *, sequence: int) -> bytearray:
    return _append(_begin(name, REPLY, sequence), 0, reply)


def encode_reply_in_parts(
    name: str, reply: messages.Reply, *, sequence: int
) -> list[bytes | bytearray | memoryview]:
    """Return a reply's buffers in order; rows stay in the memory that they are in."""
    if not isinstance(reply, messages.FetchResultsReply) or reply.results is None:
        return [encode_reply(name, reply, sequence=sequence)]
    head = encode_reply(name, replace(reply, results=None), sequence=sequence)
    # Results are the last field: they come before the two stops of struct and reply.
    del head[-2:]
    head += _FIELD_OF_STRUCT.pack(_STRUCT, messages.RESULTS_FIELD)
    return [head, reply.results, bytes((STOP, STOP))]


def encode_fault(name: str, message: str, *, kind: int, sequence: int) -> bytearray:
    out = _begin(name, EXCEPTION, sequence)
    out += encode(Fault(message=message, kind=kind))
    return out


def decode_request(envelope: Envelope, reader: Reader) -> messages.Request:
    """Read a call's only argument; MessageError when it is not that method's."""
    cls = REQUESTS[envelope.name]
    found: Any = None
    while True:
        (code,) = reader.unpack(_CODE)
        if code == STOP:
            break
        reader.begin_field()
        (number,) = reader.unpack(_NUMBER)
        if number == 1 and code == _STRUCT:
            found = decode(cls, reader)
        else:
            reader.skip(code)
    if found is None:
        raise MessageError(f"{envelope.name} came without its request")
    request: messages.Request = found
    return request


def read_reply(data: bytes | bytearray, request: type, *, sequence: int) -> Reader:
    """Position a reader on the reply struct to a call of `request`.

    Raises RemoteFault for a TApplicationException, ProtocolError for anything that
    does not answer this call.
    """
    limit = max(len(data), 1)
    reader = Reader(data, text_errors="replace", max_text=limit, max_items=limit)
    envelope = read_envelope(reader)
    if envelope.kind == EXCEPTION:
        fault = decode(Fault, reader)
        raise RemoteFault(fault.message, kind=fault.kind)
    if envelope.sequence != sequence or envelope.name != request.__name__:
        raise ProtocolError(
            f"a reply to {envelope.name} #{envelope.sequence} came, "
            f"not to {request.__name__} #{sequence}"
        )
    code, number = reader.unpack(_FIELD_OF_STRUCT)
    if (code, number) != (_STRUCT, 0):
        raise ProtocolError(f"the reply to {envelope.name} holds no result")
    return reader


def decode_reply(
    data: bytes | bytearray, request: type, *, sequence: int
) -> messages.Reply:
    """Read the reply to a call of `request`."""
    reader = read_reply(data, request, sequence=sequence)
    reply: messages.Reply = decode(REPLIES[request], reader)
    return reply
