"""Each parser and matcher on a client's text gets its worst input, at the largest size
that is let through to it and at half of it: the CPU lies on a line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from catalog import like, names, networks
from core import redaction
from core.errors import AccessDenied, InvalidRequest
from gateway import faults
from gateway.faults import MAX_RAW, scrub_message
from gateway.hs2 import binary, calls, framing
from gateway.hs2.connection import ServerConnection
from gateway.limits import GatewayLimits
from gateway.metadata import FUNCTIONS, LONGEST_PATTERN
from gateway.settable import session_settings
from gateway.statement import rule_of
from tests.cpu import Cost, cost_of

STATEMENT = GatewayLimits().max_statement
MESSAGE = GatewayLimits().max_request
FRAME = framing.MAX_SASL_PAYLOAD
# More than any page or REST call takes of a name, and of a line in a log.
NAME, LINE = 64 * 1024, 256 * 1024
# What an engine may answer at once: error texts repeat what users wrote.
REPLY = 16 * MAX_RAW
# CPU seconds of one call, whatever its input: more would be felt by everybody else.
MOST_SECONDS = 0.25


@dataclass(frozen=True)
class Worst:
    """`make(size)` is an input of that size, `read` what must be linear in it."""

    name: str
    read: Callable[[str], object]
    make: Callable[[int], str]
    size: int


def repeated(text: str, *, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + text * (size // len(text)) + after


def texts(
    name: str, read: Callable[[str], object], size: int, *made: Callable[[int], str]
) -> list[Worst]:
    return [Worst(f"{name}-{n}", read, one, size) for n, one in enumerate(made)]


def functions_like(pattern: str) -> list[str]:
    return [name for name in FUNCTIONS if like.matcher(pattern)(name)]


def long_names_like(pattern: str) -> list[bool]:
    matches = like.matcher(pattern)
    return [matches("a" * 255) for _ in range(100)]


def connected() -> ServerConnection:
    connection = ServerConnection(max_request=MESSAGE)
    list(connection.receive(framing.client_opening("ann", "secret")))
    connection.accept_login()
    return connection


def read_message(body: bytes) -> None:
    """One call with this body as its argument's fields, from a logged-in client."""
    head = bytes(calls._begin("OpenSession", calls.CALL, 1))
    message = head + b"\x0c\x00\x01" + body
    list(connected().receive(framing.length_prefix(len(message)) + message))


def read_fields(text: str) -> None:
    read_message(text.encode("latin-1"))


def log_in(text: str) -> None:
    frame = framing.sasl_frame(framing.OK, text.encode()[:FRAME])
    start = framing.sasl_frame(framing.START, framing.MECHANISM)
    with contextlib.suppress(InvalidRequest):
        list(ServerConnection().receive(start + frame))


def open_with(text: str) -> None:
    given = {f"set:hiveconf:sluice.{one}": one for one in text.split(",")}
    with contextlib.suppress(AccessDenied):
        session_settings(given, username="ann")


def refused(read: Callable[[str], object]) -> Callable[[str], object]:
    def tried(text: str) -> None:
        with contextlib.suppress(InvalidRequest):
            read(text)

    return tried


EACH = "\x02\x00\x63\x01"  # an unknown field: a boolean
LIST = "\x0f\x00\x63\x02\x00\x00\x20\x00" + "\x01" * 0x2000  # of 8,192 booleans
WORST = [
    *texts(
        "statement",
        rule_of,
        STATEMENT,
        repeated(" ", before="USE a", after="!"),
        repeated(" ", before="USE ", after="!"),
        repeated("`", before="USE "),
        repeated("``", before="USE `", after="."),
        repeated("a", before="USE ", after="!"),
        repeated(" .", before="USE a"),
        repeated("database ", before="USE "),
        repeated("a", before="SET "),
        repeated(" ", before="SET a"),
        repeated(" ", before="SET"),
        repeated("/*"),
        repeated("/**/", after="/*"),
        repeated("--\n", after="-"),
        repeated("/*-- \n;"),
    ),
    *texts(
        "scrub",
        scrub_message,
        REPLY,
        repeated("a."),
        repeated("a.a"),
        repeated("a.Error: "),
        repeated("aError."),
        repeated("\n"),
        repeated("\n\t"),
        repeated("\n\tat a"),
        repeated("/a"),
        repeated(" /a"),
        repeated("-/"),
        repeated("a:"),
        repeated("a-"),
        repeated("[A"),
        repeated("A", before="[", after="]"),
        repeated(";"),
    ),
    *texts(
        "fault",
        faults.clean,
        REPLY,
        repeated("Total size of serialized results of 1 tasks ("),
        repeated("1", before="Total size of serialized results of "),
        repeated(
            "a", before="Total size of serialized results of 1 task (1) is bigger than "
        ),
        repeated("SQLSTATE"),
        repeated(" ", before="SQLSTATE:"),
    ),
    *texts(
        "functions",
        functions_like,
        LONGEST_PATTERN,
        repeated("%", after="zz"),
        repeated("%a", after="zz"),
        repeated("%_", after="zz"),
        repeated("\\"),
    ),
    *texts(
        "names",
        long_names_like,
        LONGEST_PATTERN,
        repeated("%a", after="zz"),
        repeated("%_", after="z"),
        repeated("a%"),
    ),
    *texts("sql", like.for_sql, LONGEST_PATTERN, repeated("%"), repeated("\\")),
    *texts(
        "redact",
        redaction.redact,
        LINE,
        repeated("slt_"),
        repeated("slt_a_"),
        repeated("a", before="slt_"),
        repeated("://a:"),
        repeated("a", before="://a:"),
        repeated("password "),
        repeated(" ", before="password"),
        repeated(" ", before="password="),
    ),
    *texts(
        "name",
        refused(names.split_name),
        NAME,
        repeated("`"),
        repeated("`", after="x"),
        repeated("a."),
        repeated("a", before="`"),
    ),
    *texts(
        "host",
        refused(lambda text: networks.check_host(text, ())),
        NAME,
        repeated("1."),
        repeated("0x"),
        repeated("a-", after="!"),
        repeated(":"),
    ),
    *texts("login", log_in, FRAME, repeated("\0"), repeated("a"), repeated("é")),
    *texts("open", open_with, FRAME, repeated("a,"), repeated("a")),
    *texts(
        "thrift",
        read_fields,
        MESSAGE - 1024,
        repeated(EACH),
        repeated(LIST),
        repeated("\x0c\x00\x63"),
        repeated("\x0d\x00\x63\x02\x02\x00\x00\x00\x01\x01\x01"),
        lambda size: "\x0b\x00\x02" + size.to_bytes(4).decode("latin-1") + "a" * size,
    ),
]


@pytest.mark.parametrize("worst", WORST, ids=lambda one: one.name)
def test_the_worst_input_costs_a_line(worst: Worst) -> None:
    half, whole = worst.make(worst.size // 2), worst.make(worst.size)
    cost = cost_of(
        lambda: worst.read(half), lambda: worst.read(whole), most=MOST_SECONDS
    )
    assert cost.is_linear, cost
    assert cost.whole <= MOST_SECONDS, cost


@pytest.mark.parametrize(
    ("half", "whole", "expected"),
    [(0.1, 0.2, True), (0.1, 0.4, False), (0.001, 0.004, True), (10.0, 40.0, False)],
)
def test_the_line_tells_a_quadratic_reader(
    half: float, whole: float, expected: bool
) -> None:
    """What takes no time is not told apart; the worst inputs are large."""
    assert Cost(half, whole).is_linear is expected


def test_a_message_has_a_bounded_number_of_values() -> None:
    body = LIST.encode("latin-1") * 2 + b"\0\0"
    message = bytes(calls._begin("OpenSession", calls.CALL, 1)) + b"\x0c\x00\x01" + body
    data = framing.length_prefix(len(message)) + message
    (event,) = connected().receive(data)
    assert "does not fit" in event.reason
    assert binary.MAX_CLIENT_ITEMS < 2 * 0x2000
