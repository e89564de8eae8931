"""What can go wrong with the bytes of a peer."""

from __future__ import annotations

from typing import ClassVar

from core.errors import InvalidRequest, TerminalError


class ProtocolError(InvalidRequest):
    """The peer's bytes are not the protocol; the connection cannot go on."""

    default_code: ClassVar[str] = "protocol_error"


class MessageError(InvalidRequest):
    """One message inside an intact frame is malformed; the next one may be fine."""

    default_code: ClassVar[str] = "malformed_message"


class LimitExceeded(ProtocolError):
    """The peer announced or sent more than this side accepts."""

    default_code: ClassVar[str] = "limit_exceeded"


class RemoteFault(TerminalError):
    """The peer answered a call with a TApplicationException of type `kind`."""

    default_code: ClassVar[str] = "remote_fault"

    def __init__(self, message: str, *, kind: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
