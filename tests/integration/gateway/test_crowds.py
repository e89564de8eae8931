"""What many callers of one kind suffer, no other caller and no other kind feels."""

from __future__ import annotations

import socket
import threading

import pytest
from TCLIService import ttypes

from gateway.hs2 import framing
from gateway.store import LOGINS_WAITING_EACH
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)
FINISHED = ttypes.TOperationState.FINISHED_STATE
ACCEPTED = b"\x05\0\0\0\0"


def knock(gateway, user, password=PASSWORD, *, address="127.0.0.1"):
    raw = socket.create_connection(
        ("127.0.0.1", gateway.port), timeout=LIMIT_SECONDS, source_address=(address, 0)
    )
    raw.sendall(framing.client_opening(user, password))
    return raw


def answer_to(raw):
    data = b""
    while part := raw.recv(4096):
        data += part
    raw.close()
    return data


def rows_of(connection, sql="SELECT 7"):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


@pytest.fixture
def strangers(gateway, monkeypatch):
    """Logins of unknown names whose passwords are checked until `go` is set."""
    from gateway import store

    go, real = threading.Event(), store.prove

    def slow(username, secret, **facts):
        if username.startswith("nobody"):
            go.wait(LIMIT_SECONDS)
        return real(username, secret, **facts)

    monkeypatch.setattr(store, "prove", slow)

    def come():
        return [knock(gateway, f"nobody{n}") for n in range(LOGINS_WAITING_EACH + 20)]

    yield come, go
    go.set()


def test_wrong_logins_hold_up_nobody_who_came_in_before(gateway, strangers):
    come, go = strangers
    places = gateway.gateway.store.logins._places
    with connect(gateway) as before:
        guests = come()
        assert eventually(lambda: places.waiting == LOGINS_WAITING_EACH)
        assert rows_of(before) == [(7,)]
        with connect(gateway) as again:
            assert rows_of(again) == [(7,)]
        elsewhere = knock(gateway, "bob", address="127.0.0.2")
        assert elsewhere.recv(5) == ACCEPTED
        elsewhere.close()
        go.set()
        answers = [answer_to(raw) for raw in guests]
        assert all(b"Error validating the login" in one for one in answers)
        assert rows_of(before) == [(7,)]
    assert all(kind.is_open for kind in gateway.gateway.store.kinds)


@pytest.mark.parametrize("kind", ["logins", "metadata"])
def test_a_fuse_keeps_back_its_own_kind_only(gateway, kind):
    with connect(gateway) as connection:
        queue = getattr(gateway.gateway.store, kind)
        queue.breaker.blocked_until = float("inf")
        assert rows_of(connection) == [(7,)]
        queue.breaker.blocked_until = 0.0
        with connect(gateway) as another:
            assert rows_of(another) == [(7,)]


def test_one_user_never_takes_all_places_for_statements(users, tmp_path):
    from gateway.limits import GatewayLimits
    from tests.integration.gateway.running import RunningGateway

    limits = GatewayLimits(
        statements_running=3,
        statements_running_per_user=2,
        statements_queued_per_user=2,
    )
    running = RunningGateway(tmp_path, limits)
    running.engine.answers = lambda sql: FakeAnswer(
        seconds=3600 if sql == "slow" else 0, rows=[(7,)]
    )
    try:
        with connect(running) as ann, connect(running, "bob") as bob:
            slots = running.gateway.services.slots
            cursors = [ann.cursor() for _ in range(5)]
            for cursor in cursors:
                cursor.execute("slow", async_=True)
            assert eventually(lambda: slots.waiting == 2)
            with bob.cursor() as cursor:
                cursor.execute("SELECT 7")
            said = [cursor.poll().errorMessage or "" for cursor in cursors]
            assert sum("wait before this one" in one for one in said) == 1
            for cursor in cursors:
                cursor.cancel()
    finally:
        running.close()


def test_whose_statements_come_to_nothing_gives_way_to_others(gateway, monkeypatch):
    monkeypatch.setattr("gateway.abuse_throttle.ALLOWED_SECONDS", 0.0)
    monkeypatch.setattr("gateway.abuse_throttle.RESTS", 0.0)
    plain = gateway.engine.answers
    gateway.engine.answers = lambda sql: (
        FakeAnswer(seconds=3600) if sql == "slow" else plain(sql)
    )
    services = gateway.gateway.services
    waste, slots = services.waste, services.slots
    with connect(gateway) as ann, connect(gateway, "bob") as bob:
        his, first, second = bob.cursor(), ann.cursor(), ann.cursor()
        with ann.cursor() as left:
            left.execute("slow", async_=True)
            assert eventually(lambda: ("ann", "slow") in gateway.engine.journal)
            left.cancel()
        assert eventually(lambda: waste.is_much("ann") and not slots._taken)
        his.execute("slow", async_=True)
        first.execute("slow", async_=True)
        assert eventually(lambda: slots._taken == 2)
        second.execute("SELECT 7", async_=True)
        assert eventually(lambda: slots.waiting == 1)
        assert any("one at a time" in line for line in second.fetch_logs())
        his.cancel()
        assert eventually(lambda: not slots.waiting)  # nobody else works
        assert eventually(lambda: slots._taken == 1)
        assert second.fetchall() == [(7,)]
        first.cancel()


@pytest.mark.parametrize("leave", ["operation", "socket"])
@pytest.mark.parametrize(
    ("read_ahead", "free", "counts"),
    [(0, 0.0, True), (0, 3600.0, False), (1 << 20, 3600.0, True)],
    ids=["later rows", "few later rows", "the first rows"],
)
def test_a_fetch_that_is_left_is_waste_of_its_user(
    users, tmp_path, monkeypatch, read_ahead, leave, free, counts
):
    monkeypatch.setattr("gateway.abuse_throttle.FREE_SECONDS", free)
    with limited(tmp_path, read_ahead_bytes=read_ahead) as gateway:
        gateway.engine.answers = lambda sql: FakeAnswer(rows=[(7,)], fetch_seconds=3600)
        waste = gateway.gateway.services.waste
        ann = connect(gateway)
        cursor = ann.cursor()
        cursor.execute("SELECT 7", async_=True)
        assert eventually(lambda: gateway.engine.journal)
        if not read_ahead:
            assert eventually(lambda: cursor.poll().operationState == FINISHED)
            ann.client.send_FetchResults(
                ttypes.TFetchResultsReq(cursor._operationHandle, 0, 100)
            )
        (session,) = gateway.engine.sessions
        assert eventually(lambda: session.fetching == 1)
        (its,) = gateway.gateway.services.sessions
        if leave == "socket":
            ann._transport.close()
        else:
            gateway.call(its.free(*its.operations.values()))
        assert eventually(lambda: not session.fetching)
        assert eventually(lambda: not its.operations)
        assert (waste.seconds_of("ann") > 0) is counts
        ann._transport.close()
