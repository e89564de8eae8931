"""One client connection as a state machine: bytes to events, replies to bytes.

The caller owns the socket: it feeds what it received to `receive`, walks the events,
and sends the bytes that the other methods return. Must not know sockets or meaning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.states import Transitions, fan
from gateway.hs2 import calls, framing
from gateway.hs2.binary import MAX_CLIENT_ITEMS, Reader
from gateway.hs2.errors import LimitExceeded, MessageError, ProtocolError
from gateway.hs2.messages import Reply, Request

log = logging.getLogger(__name__)

FRESH, STARTED, JUDGING, OPEN, CLOSED = (
    "FRESH",
    "STARTED",
    "JUDGING",
    "OPEN",
    "CLOSED",
)
NEGOTIATING = frozenset({FRESH, STARTED, JUDGING})

NEGOTIATION = Transitions(
    name="Connection",
    initial=FRESH,
    arrows={
        (FRESH, "start"): STARTED,
        (STARTED, "respond"): JUDGING,
        (JUDGING, "accept"): OPEN,
        (JUDGING, "refuse"): CLOSED,
        **fan((FRESH, STARTED, JUDGING, OPEN), "close", CLOSED),
    },
    terminal=frozenset({CLOSED}),
    why={
        "start": "the peer named the mechanism PLAIN",
        "respond": "the peer sent user name and password",
        "accept": "the login was right; messages follow",
        "refuse": "the login was wrong; the socket is closed",
        "close": "the socket ended or the peer broke the protocol",
    },
)


@dataclass(frozen=True, slots=True)
class LoginRequested:
    """The peer offered credentials; answer by `accept_login` or `refuse_login`."""

    credentials: framing.Credentials


@dataclass(frozen=True, slots=True)
class CallReceived:
    """A decoded call; answer by `reply` with the same name and sequence."""

    name: str
    sequence: int
    request: Request


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A call that cannot be served; `answer` is the fault to send, without length."""

    name: str
    reason: str
    answer: bytes


Buffer = bytes | bytearray | memoryview
Event = LoginRequested | CallReceived | CallRefused


class ServerConnection:
    """The server's side of one connection."""

    def __init__(self, *, max_request: int = framing.MAX_REQUEST) -> None:
        self.state = NEGOTIATION.initial
        self._fell_from = ""
        self._frames = framing.FrameBuffer(limit=max_request)

    @property
    def held(self) -> int:
        """Bytes received and not yet made an event."""
        return len(self._frames)

    @property
    def is_begun(self) -> bool:
        """True while a logged-in peer owes the rest of a message."""
        return self.state == OPEN and self._frames.is_begun

    def receive(self, data: bytes) -> Iterator[Event]:
        """Feed `data` and yield all that it completes. Walk it to the end."""
        self.feed(data)
        while (event := self.next_event()) is not None:
            yield event

    def feed(self, data: bytes) -> None:
        """Take received bytes; LimitExceeded when too many come before the login."""
        self._frames.feed(data)
        early = self.state in NEGOTIATING
        if early and len(self._frames) > 4 * framing.MAX_SASL_PAYLOAD:
            self._fall()
            raise LimitExceeded("too many bytes were sent before the login")

    def next_event(self) -> Event | None:
        """Make the next event out of what was fed; None while it is incomplete.

        Raises ProtocolError once; the connection is then CLOSED, and its `answer`
        (if any) was returned by `farewell`.
        """
        if self.state == CLOSED:
            return None
        try:
            return self._next()
        except ProtocolError:
            self._fall()
            raise

    def accept_login(self) -> bytes:
        self._move("accept")
        return framing.sasl_frame(framing.COMPLETE)

    def refuse_login(self, reason: str = "") -> bytes:
        """Return the bytes that refuse the login; then close."""
        self._move("refuse")
        text = f"{framing.REFUSED}: {reason}" if reason else framing.REFUSED
        return framing.sasl_frame(framing.BAD, text.encode())

    def farewell(self, reason: str) -> bytes:
        """Return the last message before closing, if the peer can still read one."""
        was, self.state = self._fell_from or self.state, CLOSED
        if was in NEGOTIATING:
            return framing.sasl_frame(framing.ERROR, reason.encode())
        return b""

    def _fall(self) -> None:
        self._fell_from, self.state = self.state, CLOSED

    def _move(self, event: str) -> None:
        self.state = NEGOTIATION.after(self.state, event)

    def _next(self) -> Event | None:
        if self.state == OPEN:
            message = self._frames.next_message()
            return None if message is None else read_call(message)
        if self.state == JUDGING:
            return None
        frame = self._frames.next_sasl()
        return None if frame is None else self._negotiate(frame)

    def _negotiate(self, frame: framing.SaslFrame) -> Event | None:
        if frame.status in {framing.BAD, framing.ERROR}:
            raise ProtocolError("the peer gave up the login")
        if self.state == FRESH:
            if frame.status != framing.START or frame.payload != framing.MECHANISM:
                raise ProtocolError(
                    "only the SASL mechanism PLAIN is offered",
                    hint="log in with user name and password, or a token as password",
                )
            self._move("start")
            return self._next()
        if frame.status not in {framing.OK, framing.COMPLETE}:
            raise ProtocolError("a PLAIN response was expected")
        credentials = framing.parse_plain(frame.payload)
        self._move("respond")
        return LoginRequested(credentials)


def framed(parts: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers of a message behind its length."""
    return [framing.length_prefix(sum(len(part) for part in parts)), *parts]


def answer_of(call: CallReceived, reply: Reply) -> Sequence[Buffer]:
    """Return the buffers of the reply, to be sent in order; of a fault when it cannot
    be encoded."""
    try:
        return calls.encode_reply_in_parts(call.name, reply, sequence=call.sequence)
    except Exception:
        log.exception("a reply to %s could not be encoded", call.name)
        fault = calls.encode_fault(
            call.name,
            "the gateway failed",
            kind=calls.INTERNAL_ERROR,
            sequence=call.sequence,
        )
        return [fault]


def read_call(message: bytes) -> CallReceived | CallRefused:
    """Decode one message of a client. ProtocolError when it is no Thrift call."""
    reader = Reader(message, max_items=MAX_CLIENT_ITEMS)
    envelope = calls.read_envelope(reader)
    if envelope.kind != calls.CALL:
        raise ProtocolError(f"a client may only call, not send kind {envelope.kind}")
    if envelope.name not in calls.REQUESTS:
        reason = f"Invalid method name: '{envelope.name}'"
        return _refused(envelope, reason, calls.UNKNOWN_METHOD)
    try:
        request = calls.decode_request(envelope, reader)
    except MessageError as error:
        return _refused(envelope, error.message, calls.PROTOCOL_ERROR)
    return CallReceived(envelope.name, envelope.sequence, request)


def _refused(envelope: calls.Envelope, reason: str, kind: int) -> CallRefused:
    body = calls.encode_fault(
        envelope.name, reason, kind=kind, sequence=envelope.sequence
    )
    return CallRefused(envelope.name, reason, bytes(body))
