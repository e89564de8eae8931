"""HiveServer2 over HTTP: one message per POST, sessions that outlive connections."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyhive import hive
from TCLIService import ttypes
from thrift.Thrift import TApplicationException

from catalog.access.policy_version import current_version
from catalog.access.tokens import create_token, delete_token
from catalog.access.users import UserChange, update_user
from catalog.models import AuditEntry
from gateway import http_transport
from gateway.hs2 import calls, messages
from gateway.hs2.values import OperationHandle, SessionHandle
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited, read_all

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)

OPEN = messages.OpenSession(client_protocol=9)


def basic(user="ann", secret=PASSWORD):
    return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


def ask(gateway, method, body, headers, *, link=None, path="/cliservice"):
    """(status, headers, body), on a connection of its own unless one is given."""
    own = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=30)
    with contextlib.closing(own):
        (link or own).request(method, path, body, headers)
        reply = (link or own).getresponse()
        return reply.status, reply.headers, reply.read()


def post(gateway, request=OPEN, *, link=None, path="/cliservice", **headers):
    body = bytes(calls.encode_call(request, sequence=7))
    given = {"Content-Type": "application/x-thrift"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(gateway, "POST", body, given, link=link, path=path)


def post_raw(gateway, headers):
    """The answer's status and what follows, of a request with these header lines."""
    body = bytes(calls.encode_call(OPEN, sequence=7))
    head = (
        "POST /cliservice HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Type: application/x-thrift\r\nContent-Length: {len(body)}\r\n"
    )
    with knock(gateway) as raw:
        raw.sendall(f"{head}{headers}\r\n".encode("latin-1") + body)
        return read_all(raw).partition(b" ")[2]


def call(gateway, request=OPEN, **options):
    options = {"Authorization": basic()} | options
    status, _, body = post(gateway, request, **options)
    assert status == 200, body
    return calls.decode_reply(body, type(request), sequence=7)


def knock(gateway):
    return socket.create_connection(("127.0.0.1", gateway.http_port), timeout=30)


def over_http(gateway, user="ann", password=PASSWORD):
    return hive.connect(
        host="127.0.0.1",
        port=gateway.http_port,
        scheme="http",
        auth="BASIC",
        username=user,
        password=password,
    )


def sessions(gateway):
    return list(gateway.gateway.services.sessions)


def test_pyhive_reads_all_rows_and_closes_its_session(gateway):
    with over_http(gateway) as link, link.cursor() as cursor:
        cursor.arraysize = 1000
        cursor.execute("SELECT * FROM range(5000)")
        assert len(cursor.fetchall()) == 5000
        cursor.execute("SELECT 7", async_=True)
        assert eventually(lambda: cursor.poll().operationState == 2)
        assert cursor.fetchall() == [(7,)]
    assert sessions(gateway) == []
    assert AuditEntry.objects.filter(action="login", actor="ann").count() == 1


def test_who_is_refused_is_told_why(gateway, users):
    with pytest.raises(TApplicationException, match="Error validating the login"):
        over_http(gateway, password="wrong")
    status, headers, _ = post(gateway)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="Sluice"')
    for given in ("Basic ?", basic(""), "Bearer abc", "Bearer slt_x", "Digest a=b"):
        assert post(gateway, Authorization=given)[0] == 401, given
    assert post(gateway, Cookie="hive.server2.auth=a.b")[0] == 401
    as_bob = {"path": "/cliservice?doAs=bob", "Authorization": basic()}
    assert post(gateway, **as_bob)[0] == 403
    assert gateway.engine.journal == []
    assert gateway.gateway.server.logins.users() == {"ann"}


def test_what_is_no_message_is_refused(users, tmp_path):
    with limited(tmp_path, max_request=100) as gateway:
        me = {"Authorization": basic()}
        assert post(gateway, path="/", **me)[0] == 404
        assert post(gateway, Content_Type="text/plain", **me)[0] == 415
        assert post(gateway, Content_Encoding="gzip", **me)[0] == 415
        long = messages.ExecuteStatement(statement="x" * 100)
        assert post(gateway, long, **me)[0] == 413
        assert ask(gateway, "GET", b"", me)[0] == 405
        form = {"Content-Type": "application/x-thrift", **me}
        for body, status in ((b"nonsense", 400), (iter([b"x" * 60] * 9), 413)):
            assert ask(gateway, "POST", body, form)[0] == status


@pytest.mark.parametrize("form", ["bearer", "basic"])
def test_a_token_lets_in_until_it_is_revoked(gateway, users, form):
    token = create_token(users["ann"], name="bi", expires_in_days=1, by="ann")
    given = f"Bearer {token.text}" if form == "bearer" else basic(secret=token.text)
    _, headers, _ = post(gateway, Authorization=given)
    cookie = headers["Set-Cookie"].partition(";")[0]
    call(gateway, Authorization="", Cookie=cookie)
    over_cookie = connect(gateway)
    delete_token(token.row.pk, by=users["ann"])
    assert eventually(lambda: len(sessions(gateway)) == 1)
    assert post(gateway, Authorization=given)[0] == 401
    assert post(gateway, Cookie=cookie)[0] == 401
    over_cookie.close()


def test_a_cookie_is_for_scripts_and_other_sites_out_of_reach(gateway):
    _, headers, _ = post(gateway, Authorization=basic())
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/cliservice"} <= set(attributes)
    name, value = cookie.split("=", 1)
    for forged in (value[:-1], value + "0", value.split(".")[0], "." + value):
        assert post(gateway, Cookie=f"{name}={forged}")[0] == 401
    assert post_raw(gateway, f"Cookie: {name}={value}ÿ\r\n").startswith(b"401")
    again = post(gateway, Cookie=cookie)
    assert (again[0], again[1]["Set-Cookie"]) == (200, None)


def test_a_cookie_that_is_not_the_logins_is_replaced(gateway):
    """Else a client goes on with a void one, or as the user of one foisted on it."""
    _, headers, _ = post(gateway, Authorization=basic())
    of_ann = headers["Set-Cookie"].partition(";")[0]
    for cookie in (of_ann, "hive.server2.auth=stale.x"):
        _, headers, _ = post(gateway, Authorization=basic("bob"), Cookie=cookie)
        of_bob = headers["Set-Cookie"].partition(";")[0]
        as_ann = {"path": "/cliservice?doAs=ann", "Cookie": of_bob}
        assert post(gateway, Cookie=of_bob)[0] == 200
        assert post(gateway, **as_ann)[0] == 403


@pytest.mark.parametrize(
    "more",
    [
        f"Authorization: {basic()}\r\nAuthorization: {basic('bob')}\r\n",
        f"Authorization: {basic()}\r\nTransfer-Encoding: chunked\r\n",
        f"Authorization: {basic()}\r\nContent-Length: 1\r\n",
        f"Authorization:\r\n {basic()}\r\n",
        f"Authorization: {basic()}\n\n",
    ],
)
def test_what_proxies_may_read_otherwise_is_refused_and_not_repeated(
    gateway, more, caplog
):
    answer = post_raw(gateway, more)
    assert answer.startswith(b"400")
    secret = basic().split()[1]
    assert secret not in answer.decode(errors="replace")
    assert secret not in caplog.text
    assert sessions(gateway) == []


def change_password(user):
    user.set_password("a-new-and-better-one")
    user.save()


def disable(user):
    update_user(user.username, UserChange(is_active=False), by="root")


@pytest.mark.parametrize("end", [change_password, disable])
def test_what_ends_a_login_ends_its_sessions_and_its_cookie(gateway, users, end):
    opened = call(gateway)
    _, headers, _ = post(gateway, Authorization=basic())
    end(users["ann"])
    assert eventually(lambda: not sessions(gateway))
    cookie = headers["Set-Cookie"].partition(";")[0]
    info = messages.GetInfo(session=opened.session, kind=13)
    assert post(gateway, info, Cookie=cookie)[0] == 401
    assert post(gateway, info, Authorization=basic())[0] == 401


def test_who_is_disabled_while_a_login_is_proven_is_not_remembered(
    gateway, users, monkeypatch
):
    """The watch over rights has looked before there was a login to end."""
    store, proven, looked = gateway.gateway.store, threading.Event(), threading.Event()
    authenticate = store.authenticate

    async def late(*given, **more):
        found = await authenticate(*given, **more)
        proven.set()
        await asyncio.to_thread(looked.wait)
        return found

    monkeypatch.setattr(store, "authenticate", late)
    with ThreadPoolExecutor(1) as pool:
        login = pool.submit(post, gateway, Authorization=basic())
        assert eventually(proven.is_set)
        disable(users["ann"])
        assert eventually(lambda: gateway.gateway._version == current_version())
        looked.set()
        _, headers, _ = login.result()
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert eventually(lambda: post(gateway, Cookie=cookie)[0] == 401)


def test_a_session_is_its_users_on_any_connection_and_nobody_elses(gateway):
    opened = call(gateway)
    asked = messages.ExecuteStatement(
        session=opened.session, statement="SELECT 7", run_async=True
    )
    started = call(gateway, asked)
    poll = messages.GetOperationStatus(operation=started.operation)
    fetch = messages.FetchResults(operation=started.operation, max_rows=10)
    assert eventually(lambda: call(gateway, poll).state == 2)
    bob = {"Authorization": basic("bob")}
    for request in (asked, poll, fetch, messages.CancelOperation(started.operation)):
        assert call(gateway, request, **bob).status.code == 4, request
    assert call(gateway, messages.CloseSession(opened.session), **bob).status.code == 4
    # the binary transport knows the user's session, and its end ends only its own
    with connect(gateway) as binary:
        handle = ttypes.THandleIdentifier(
            opened.session.id.guid, opened.session.id.secret
        )
        info = ttypes.TGetInfoReq(ttypes.TSessionHandle(handle), 17)
        assert binary.client.GetInfo(info).status.statusCode == 0
    assert call(gateway, fetch).status.code == 0
    wrong = SessionHandle(id=started.operation.id)
    guessed = messages.ExecuteStatement(session=wrong, statement="SELECT 7")
    assert call(gateway, guessed).status.code == 4
    stale = messages.FetchResults(operation=OperationHandle(id=opened.session.id))
    assert call(gateway, stale).status.code == 4


def test_a_session_without_a_connection_ends_when_it_was_idle(gateway):
    limits, held = gateway.gateway.services.limits, gateway.gateway.services.sessions
    call(gateway)
    with connect(gateway):
        gateway.call(held.end_idle(time.monotonic() + limits.detached_idle_seconds - 9))
        assert len(list(held)) == 2
        gateway.call(held.end_idle(time.monotonic() + limits.detached_idle_seconds + 9))
        assert [one.connection is None for one in held] == [False]


def test_a_statement_whose_handle_nobody_will_know_is_stopped(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=3600)
    opened = call(gateway)
    asked = messages.ExecuteStatement(session=opened.session, statement="SELECT 'slow'")
    body = bytes(calls.encode_call(asked, sequence=7))
    raw = knock(gateway)
    head = f"POST /cliservice HTTP/1.1\r\nHost: x\r\nAuthorization: {basic()}\r\n"
    head += f"Content-Type: application/x-thrift\r\nContent-Length: {len(body)}\r\n\r\n"
    raw.sendall(head.encode() + body)
    (session,) = sessions(gateway)
    assert eventually(lambda: session.operations)
    raw.close()
    assert eventually(lambda: not session.operations)
    assert sessions(gateway) == [session]


def test_connections_count_by_address_and_user(users, tmp_path):
    limits = {"connections": 4, "connections_per_user": 1, "login_seconds": 60}
    with limited(tmp_path, **limits) as gateway:
        server = gateway.gateway.server
        link = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=30)
        assert post(gateway, link=link, Authorization=basic())[0] == 200
        assert server.connections.per_user == {"ann": 1}
        assert post(gateway, Authorization=basic())[0] == 429
        assert post(gateway, link=link, Authorization=basic("bob"))[0] == 200
        assert server.connections.per_user == {"bob": 1}
        idle = [knock(gateway) for _ in range(3)]
        assert eventually(lambda: server.connections.unauthenticated.total == 3)
        idle.append(knock(gateway))
        assert read_all(idle.pop(0)).startswith(b"HTTP/1.1 503")
        assert post(gateway, link=link, Authorization=basic("bob"))[0] == 200
        for raw in idle:
            raw.close()
        link.close()
        assert eventually(lambda: not server.connections)
        assert not server.connections.per_user + server.connections.per_address


@pytest.mark.parametrize(
    ("limit", "sent", "answer"),
    [
        ({"login_seconds": 0.2}, b"POST /cliservice HTTP/1.1\r\nHost:", b" 503"),
        ({"message_seconds": 0.2}, b"\r\nabc", b" 408"),
        ({"keep_alive_seconds": 0.2}, b"", b""),
    ],
)
def test_slow_clients_are_hung_up_on(users, tmp_path, limit, sent, answer):
    with limited(tmp_path, **limit) as gateway:
        raw = knock(gateway)
        if "login_seconds" not in limit:
            raw.sendall(
                f"POST /cliservice HTTP/1.1\r\nHost: x\r\nAuthorization: {basic()}\r\n"
                "Content-Type: application/x-thrift\r\nContent-Length: 9\r\n".encode()
                * bool(sent)
            )
        raw.sendall(sent)
        assert answer in read_all(raw)
        assert eventually(lambda: not gateway.gateway.server.connections)


def test_a_body_of_nobody_is_not_read(gateway, monkeypatch):
    monkeypatch.setattr(http_transport, "LINGERING_SECONDS", 0.2)
    raw = knock(gateway)
    raw.sendall(
        b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n"
        b"Content-Type: application/x-thrift\r\n\r\n" + b"x" * 1000
    )
    assert raw.recv(100).startswith(b"HTTP/1.1 401")
    assert gateway.gateway.server.connections.unfinished.total == 0
    read_all(raw)


def test_a_client_that_leaves_amid_its_body_is_no_fault(gateway, caplog):
    with knock(gateway) as raw:
        raw.sendall(
            f"POST /cliservice HTTP/1.1\r\nHost: x\r\nAuthorization: {basic()}\r\n"
            "Content-Type: application/x-thrift\r\n"
            "Content-Length: 9\r\n\r\nabc".encode()
        )
        assert eventually(lambda: gateway.gateway.server.logins.users())
    assert eventually(lambda: not gateway.gateway.server.connections)
    assert call(gateway).status.code == 0
    assert not [line for line in caplog.records if line.name == "aiohttp.server"]


def test_heads_that_do_not_end_are_counted(users, tmp_path):
    with limited(tmp_path, unfinished_bytes=100_000, login_seconds=60) as gateway:
        unfinished = gateway.gateway.server.connections.unfinished
        with knock(gateway) as small, knock(gateway) as large:
            small.sendall(b"POST /cliservice HTTP/1.1\r\nHost: x\r\n")
            assert eventually(lambda: unfinished.total > 0)
            large.sendall(b"POST /cliservice HTTP/1.1\r\n")
            large.sendall(
                b"".join(b"X-%d: %s\r\n" % (n, b"y" * 7000) for n in range(20))
            )
            assert read_all(large).startswith(b"HTTP/1.1 503")
            small.sendall(b"Content-Length: 0\r\n\r\n")
            assert small.recv(100).startswith(b"HTTP/1.1 415")
            assert unfinished.total == 0


def test_huge_headers_are_refused(gateway):
    with pytest.raises((http.client.HTTPException, OSError, AssertionError)):
        call(gateway, Cookie="a=" + "b" * 100_000)
    status, _, _ = post(gateway, **{f"X-{n}": "y" for n in range(200)})
    assert status == 400


def test_a_statement_over_http_is_audited_as_any_other(gateway):
    with over_http(gateway) as link:
        link.cursor().execute("SELECT 7")
    entry = AuditEntry.objects.filter(action__startswith="statement").first()
    assert (entry.actor, entry.address) == ("ann", "127.0.0.1")
