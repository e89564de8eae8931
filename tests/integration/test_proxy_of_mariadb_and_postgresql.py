"""The proxy of the hostile-source tests, before real servers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest

from tests.hostile.proxy import Statement, WireProxy, proxy_of
from tests.waiting import LIMIT_SECONDS

KINDS = ("postgresql", "mariadb")


class Client:
    """A connection of the kind's own driver."""

    def __init__(self, kind: str, port: int, server: Any) -> None:
        if kind == "postgresql":
            dsn = server.dsn().replace(f":{server.port}/", f":{port}/")
            self.link: Any = psycopg.connect(dsn, autocommit=True)
        else:
            self.link = pymysql.connect(
                host=server.host,
                port=port,
                user=server.username,
                password=server.password,
                ssl_disabled=True,
                autocommit=True,
            )

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.link.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return [tuple(row) for row in cursor.fetchall()]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Any:
    name = "source_pg" if kind == "postgresql" else "mariadb_server"
    return request.getfixturevalue(name)


@pytest.fixture
def proxy(kind: str, server: Any) -> Iterator[WireProxy]:
    made = proxy_of(kind, server.host, server.port)
    yield made
    made.close()


@pytest.fixture
def client(kind: str, server: Any, proxy: WireProxy) -> Iterator[Client]:
    made = Client(kind, proxy.port, server)
    proxy.count_anew()
    with contextlib.closing(made.link):
        yield made


def test_hooks_stand_on_both_sides_of_each_statement(
    proxy: WireProxy, client: Client
) -> None:
    seen: list[tuple[str, int, str]] = []
    proxy.count_anew(
        lambda s: seen.append(("before", s.number, s.text)),
        lambda s: seen.append(("after", s.number, s.text)),
    )
    assert client.rows("SELECT 1") == [(1,)]
    wide = client.rows("SELECT %s, repeat('x', 300000)", 7)
    assert (wide[0][0], len(wide[0][1])) == (7, 300_000)
    with pytest.raises((psycopg.Error, pymysql.MySQLError)):
        client.rows("SELECT nothing FROM nowhere")
    assert client.rows("SELECT 2 WHERE 1 = 0") == []
    order = [(side, number) for side, number, _ in seen]
    assert order == [(side, n) for n in (1, 2, 3, 4) for side in ("before", "after")]
    assert "nowhere" in seen[4][2]


def test_a_hook_holds_the_statement_back(proxy: WireProxy, client: Client) -> None:
    """What it waits for happens first, at the server too."""
    told, go_on = threading.Event(), threading.Event()

    def hold(_: Statement) -> None:
        told.set()
        assert go_on.wait(LIMIT_SECONDS)

    proxy.count_anew(hold)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(client.rows("SELECT 1")))
    thread.start()
    assert told.wait(LIMIT_SECONDS)
    assert found == []
    go_on.set()
    thread.join(LIMIT_SECONDS)
    assert found == [[(1,)]]


def test_it_falls_silent_trickles_and_cuts(proxy: WireProxy, client: Client) -> None:
    proxy.piece = 7
    assert client.rows("SELECT repeat('y', 500)") == [("y" * 500,)]
    proxy.piece = 0
    found: list[Any] = []
    proxy.freeze()
    thread = threading.Thread(target=lambda: found.append(client.rows("SELECT 1")))
    thread.start()
    while not proxy.sent[-1].text.endswith("SELECT 1"):
        thread.join(0.01)
    assert found == []
    proxy.thaw()
    thread.join(LIMIT_SECONDS)
    assert found == [[(1,)]]
    assert proxy.cut() == 1
    with pytest.raises((psycopg.Error, pymysql.MySQLError)):
        client.rows("SELECT 1")
