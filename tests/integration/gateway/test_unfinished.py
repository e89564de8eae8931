"""Messages begun and not ended, calls sent ahead, and what sessions may keep."""

from __future__ import annotations

import struct

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from gateway.engines.settable import LONGEST_VALUE
from gateway.hs2 import calls, messages
from gateway.limits import MOST_SETTINGS
from gateway.session_engine import LONGEST_CHANGE, MOST_CHANGES
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.test_crowds import ACCEPTED, knock, rows_of
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)
MIB = 1024 * 1024


def begun(gateway, size, sent, user="ann"):
    raw = knock(gateway, user)
    assert raw.recv(5) == ACCEPTED
    raw.sendall(struct.pack("!I", size) + b"\x80" * sent)
    return raw


def is_hung_up(raw):
    raw.settimeout(None)
    try:
        return raw.recv(1) == b""
    except ConnectionError:
        return True


def test_a_message_that_does_not_end_ends_the_connection(users, tmp_path):
    with limited(tmp_path, message_seconds=0.3) as gateway:
        for sent in (0, 3, 70_000):
            raw = begun(gateway, MIB, sent)
            assert is_hung_up(raw)
            raw.close()
        with connect(gateway) as connection:
            assert rows_of(connection) == [(7,)]


def test_he_who_holds_most_loses_his_largest(users, tmp_path):
    with limited(tmp_path, unfinished_bytes=MIB) as gateway:
        held = [begun(gateway, 4 * MIB, 200_000) for _ in range(4)]
        unfinished = gateway.gateway.server.connections.unfinished
        assert eventually(lambda: unfinished.total > 790_000)
        with connect(gateway, "bob") as connection:
            long = f"SELECT 7 {' ' * 300_000}"
            assert rows_of(connection, long) == [(7,)]
        assert unfinished.total <= MIB
        gone = [raw for raw in held if raw not in alive(held)]
        assert len(gone) == 1
        for raw in held:
            raw.close()
        assert eventually(lambda: unfinished.total == 0)


def alive(raws):
    left = []
    for raw in raws:
        raw.setblocking(False)
        try:
            raw.recv(1)
        except BlockingIOError:
            left.append(raw)
        except ConnectionError:
            pass
    return left


def test_an_announced_giant_costs_nothing(users, tmp_path):
    with limited(tmp_path) as gateway:
        assert is_hung_up(begun(gateway, 16 * MIB, 0))


def test_calls_sent_ahead_are_answered_in_order_and_held_in_bounds(users, tmp_path):
    with limited(tmp_path, pipelined_bytes=4096) as gateway:
        raw = knock(gateway, "ann")
        assert raw.recv(5) == ACCEPTED
        count = 3_000
        for number in range(count):
            body = calls.encode_call(messages.CloseOperation(), sequence=number)
            raw.sendall(struct.pack("!I", len(body)) + body)
        answers = raw.makefile("rb")
        for number in range(count):
            (size,) = struct.unpack("!I", answers.read(4))
            body = answers.read(size)
            calls.decode_reply(body, messages.CloseOperation, sequence=number)
        answers.close()
        raw.close()


def test_settings_of_a_session_are_bounded_in_number_and_size(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        for number in range(MOST_CHANGES):
            cursor.execute(f"SET sluice.x{number} = 1")
        cursor.execute("SET sluice.x0 = 2")
        long = f"SET sluice.x0 = 1{' ' * LONGEST_CHANGE}"
        for refused in ("SET sluice.one_more = 1", long):
            with pytest.raises(OperationalError, match=f"{MOST_CHANGES} settings"):
                cursor.execute(refused)
    many = {f"sluice.x{number}": "1" for number in range(MOST_SETTINGS + 1)}
    for configuration in (many, {"sluice.x": "y" * (LONGEST_VALUE + 1)}):
        with pytest.raises(OperationalError, match="at most"):
            connect(gateway, configuration=configuration)


def test_names_are_bounded(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        with pytest.raises(OperationalError, match="a name has 300 characters"):
            cursor.execute(f"USE `{'a' * 300}`")
        with pytest.raises(OperationalError, match="a search pattern has"):
            patterns(connection, "%" * 600)


def patterns(connection, pattern):
    request = ttypes.TGetTablesReq(connection.sessionHandle, tableName=pattern)
    reply = connection.client.GetTables(request)
    if reply.status.statusCode:
        raise OperationalError(reply.status.errorMessage)


def test_waiting_statements_hold_a_bounded_length_of_text(users, tmp_path):
    with limited(tmp_path, statement_texts=1_000) as gateway:
        gateway.engine.answers = lambda sql: FakeAnswer(seconds=3600)
        with connect(gateway) as connection, connection.cursor() as cursor:
            cursor.execute("slow" + " " * 600, async_=True)
            second = connection.cursor()
            with pytest.raises(OperationalError, match="have 604 characters"):
                second.execute("slow" + " " * 600, async_=True)
            cursor.cancel()
            assert eventually(lambda: gateway.gateway.services.texts.held == 0)
