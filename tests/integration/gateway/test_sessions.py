"""Administrators see who is connected and what runs, and end a session."""

from __future__ import annotations

from contextlib import contextmanager, suppress

import pytest
from django.test import Client
from pyhive.exc import OperationalError
from TCLIService import ttypes

from catalog.models import AuditEntry
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.running import SECRET
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited


@pytest.fixture
def root(gateway, users, settings):
    settings.SLUICE_GATEWAY_INTERNAL = str(gateway.internal_file)
    settings.SLUICE_SERVICE_SECRET = SECRET
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    users["bob"].is_superuser = True
    users["bob"].save()
    made = Client()
    made.force_login(users["bob"])
    return made


@contextmanager
def connected(gateway):
    """A client whose session may be gone when it says goodbye."""
    link = connect(gateway)
    yield link
    with suppress(OperationalError):
        link.close()


def listed(root, **query):
    reply = root.get("/api/v1/sessions", query)
    assert reply.status_code == 200, reply.content
    return reply.json()


def test_a_session_is_shown_with_what_runs_and_ended(root, users, gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    with connected(gateway) as link:
        (idle,) = listed(root)["items"]
        assert (idle["user"], idle["address"]) == ("ann", "127.0.0.1")
        assert (idle["statement"], idle["database"]) == (None, "default")
        cursor = link.cursor()
        cursor.execute("SELECT 'slow'", async_=True)
        assert eventually(lambda: listed(root)["items"][0]["engine"])
        (busy,) = listed(root)["items"]
        assert busy["id"] == idle["id"]
        assert busy["statement"]["text"] == "SELECT 'slow'"
        assert busy["statement"]["state"] in {"PENDING", "RUNNING"}
        page = root.get("/sessions").content.decode()
        assert "SELECT &#x27;slow&#x27;" in page
        assert f"/sessions/{idle['id']}/close" in page
        assert root.delete(f"/api/v1/sessions/{idle['id']}").status_code == 204
        assert listed(root)["items"] == []
        with pytest.raises(OperationalError):
            link.cursor().execute("SELECT 1")
    entry = AuditEntry.objects.get(action="session.close")
    assert (entry.actor, entry.object, entry.door) == ("bob", "ann", "rest")
    assert entry.facts["session"] == idle["id"]
    again = root.delete(f"/api/v1/sessions/{idle['id']}")
    assert (again.status_code, again.json()["code"]) == (404, "session_not_found")


def test_the_list_pages_filters_and_is_for_administrators(root, users, gateway):
    with connected(gateway), connected(gateway), connected(gateway):
        first = listed(root, page_size=2)
        rest = listed(root, page_size=2, page_token=first["next_page_token"])
        ids = [one["id"] for one in first["items"] + rest["items"]]
        assert len(set(ids)) == 3
        assert rest["next_page_token"] is None
        assert listed(root, user="bob")["items"] == []
        page = f"/sessions/{ids[0]}/close"
        assert root.post(page, follow=True).status_code == 200
        assert len(listed(root, user="ann")["items"]) == 2
    ann = Client()
    ann.force_login(users["ann"])
    assert ann.get("/api/v1/sessions").status_code == 403
    assert ann.delete(f"/api/v1/sessions/{ids[1]}").status_code == 403
    assert ann.post(page).status_code == 404


def test_no_statement_outlives_what_the_lake_keeps_for_it(root, users, gateway):
    """Both that run and that are still being read from it; younger ones stay, and those
    whose rows the engine has."""
    gateway.engine.answers = lambda sql: FakeAnswer(
        seconds=60 if "slow" in sql else 0,
        rows=[(str(n),) for n in range(5000)],
        is_whole="spooled" in sql,
    )
    with connected(gateway) as link:
        slow, read, spooled, young = (link.cursor() for _ in range(4))
        spooled.execute("SELECT 'spooled'")
        slow.execute("SELECT 'slow'", async_=True)
        read.execute("SELECT 'read'")
        young.execute("SELECT 'young'")
        assert read.fetchone() == ("0",)
        gateway.call(overdue(gateway, "young", before=1801))
        timed_out = ttypes.TOperationState.CANCELED_STATE  # to a driver of that age
        assert eventually(lambda: slow.poll().operationState == timed_out)
        with pytest.raises(OperationalError, match="within 1800 s"):
            read.fetchall()
        assert len(young.fetchall()) == 5000
        assert len(spooled.fetchall()) == 5000


def test_a_fetch_of_an_overdue_statement_ends_in_the_engine_too(users, tmp_path):
    with limited(tmp_path, read_ahead_bytes=0) as gateway:
        fetch_of_an_overdue_statement(gateway)


def fetch_of_an_overdue_statement(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(
        rows=[("0",)], fetch_seconds=3600 if "slow" in sql else 0
    )
    with connected(gateway) as link:
        cursor, young = link.cursor(), link.cursor()
        young.execute("SELECT 'young'")
        cursor.execute("SELECT 'slow'")
        (session,) = gateway.engine.sessions
        assert eventually(lambda: len(session._statements) == 2)
        ask = ttypes.TFetchResultsReq(cursor._operationHandle, 0, 100)
        link.client.send_FetchResults(ask)
        assert eventually(lambda: session.fetching == 1)
        gateway.call(overdue(gateway, "young", before=1801))
        assert eventually(lambda: len(session._statements) == 1)
        assert "within 1800 s" in link.client.recv_FetchResults().status.errorMessage
        assert young.fetchall() == [("0",)]


async def overdue(gateway, but, *, before):
    """As the sweep does after that time, for every statement without that word."""
    sessions = gateway.gateway.services.sessions
    for session in sessions:
        for operation in session.operations.values():
            if but not in operation.statement:
                operation.started -= before
    await sessions.end_idle(0)
