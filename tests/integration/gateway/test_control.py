"""The gateway's end of the control channel, with a test in the engine's place."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from catalog.access.table_rights import Mask, TableRights
from catalog.selectors.locations import LakeLocation, LiveTable
from core.errors import TransientError
from gateway import control
from gateway.control import ControlListener
from gateway.engines.port import EngineUnavailable
from tests.waiting import LIMIT_SECONDS

SECRET = "start-secret"
RIGHTS = TableRights(
    frozenset({"pay", "id"}), ("id > 1",), (("pay", Mask("hash", "k")),)
)
POLICY = PrincipalPolicy(
    *("ann", 4),
    is_active=True,
    is_admin=False,
    select=("shop.*",),
    sources=("pg.public",),
    tables={"shop.orders": RIGHTS},
)


class Questions:
    age = 5
    versions = {"shop": "1"}

    async def look_up(self, database, table):
        if table == "broken":
            raise RuntimeError("the database is away")
        is_known = (database, table) == ("shop", "orders")
        return LakeLocation("/lake/shop/orders", 3) if is_known else None

    async def list_tables(self, principal, database, pattern):
        return [("shop", "orders")]

    async def columns_by_table(self, principal, database, pattern):
        return {"orders": [("id", "bigint", False)]}

    async def live_table(self, principal, datasource, database, table):
        if table == "broken":
            raise RuntimeError("the database is away")
        if table == "lost":
            raise TransientError("of db.example", code="unknown_host")
        is_known = (datasource, database, table) == ("shop", "public", "orders")
        access = {"url": "x"} if principal == "ann" else None
        return LiveTable({"parts": []}, access, "shop", "1") if is_known else None

    async def live_versions(self, sources):
        return self.versions

    async def live_names(self, principal, datasource, database):
        return ["orders"] if database else ["public"]

    async def lake_name_of(self, datasource, database, table):
        return f"{datasource}.{table}" if table == "orders" else None

    def db_read_age_ms(self):
        return self.age


class Engine:
    """A line-by-line peer."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def say(self, **message):
        self.writer.write(json.dumps(message).encode() + b"\n")
        await self.writer.drain()

    async def hear(self, *kinds):
        while line := await asyncio.wait_for(self.reader.readline(), LIMIT_SECONDS):
            message = json.loads(line)
            if message["type"] in kinds:
                return message
        return None

    async def introduce(self, pid=7, secret=SECRET):
        await self.say(type="hello", secret=secret, pid=pid, port=5555, engine_id="e")


def channel(scenario):
    async def run():
        with tempfile.TemporaryDirectory(prefix="ctl-") as folder:
            listener = ControlListener(Path(folder) / "c.sock", SECRET, Questions())
            await listener.start()
            peers = []

            async def call():
                made = Engine(*await asyncio.open_unix_connection(listener.path))
                peers.append(made)
                return made

            try:
                await scenario(listener, call)
            finally:
                for peer in peers:
                    peer.writer.close()
                await listener.close()
                await asyncio.sleep(0.05)

    asyncio.run(run())


def test_a_policy_is_pushed_and_its_acknowledgement_awaited():
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        assert (await listener.wait_hello()).port == 5555
        assert (await engine.hear("welcome"))["type"] == "welcome"
        push = asyncio.create_task(listener.push_policy(POLICY))
        message = await engine.hear("policy")
        assert message == {
            "type": "policy", "principal": "ann", "version": 4, "active": True,
            "admin": False, "select": ["shop.*"], "discover": [],
            "sources": ["pg.public"], "sources_seen": [],
            "tables": {"shop.orders": {
                "columns": ["id", "pay"], "filters": ["id > 1"],
                "masks": [{"column": "pay", "kind": "hash", "text": "k"}],
            }},
        }  # fmt: skip
        assert not push.done()
        await engine.say(type="ack", principal="ann", version=3)
        async with asyncio.timeout(LIMIT_SECONDS):
            while listener.acknowledged_version("ann") != 3:
                await asyncio.sleep(0)
        assert not push.done()
        await engine.say(type="ack", principal="ann", version=4)
        await push
        assert listener.acknowledged_version("ann") == 4

    channel(scenario)


def test_heartbeats_carry_the_age_of_the_last_database_read():
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        assert (await engine.hear("heartbeat"))["db_read_age_ms"] == 5

    channel(scenario)


@pytest.mark.parametrize(
    ("database", "table", "answer"),
    [
        ("shop", "orders", {"found": True, "path": "/lake/shop/orders"}),
        ("shop", "none", {"found": False}),
        (
            "shop",
            "broken",
            {"found": False, "error": "the catalogue could not be read"},
        ),
        ("pg.public", "orders", {"found": False, "lake_name": "pg.orders"}),
        ("pg.public", "none", {"found": False, "lake_name": None}),
    ],
)
def test_look_ups_are_always_answered(database, table, answer):
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        await engine.say(type="lookup", request_id="1", database=database, table=table)
        given = await engine.hear("table")
        assert given["request_id"] == "1"
        assert answer.items() <= given.items()
        assert "error" in answer or "error" not in given

    channel(scenario)


def test_lists_are_answered():
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        await engine.say(
            type="list", request_id="2", principal="ann", database="*", pattern="*"
        )
        assert (await engine.hear("tables"))["names"] == [["shop", "orders"]]
        await engine.say(
            type="columns", request_id="3", principal="ann", database="shop", pattern=""
        )
        told = await engine.hear("columns")
        assert told["tables"] == {"orders": [["id", "bigint", False]]}
        asked = {"principal": "ann", "datasource": "pg", "database": ""}
        await engine.say(type="live_names", request_id="4", **asked)
        assert (await engine.hear("live_names"))["names"] == ["public"]

    channel(scenario)


@pytest.mark.parametrize(
    ("principal", "table", "answer"),
    [
        ("ann", "orders", {"found": {"parts": []}, "access": {"url": "x"}}),
        ("bob", "orders", {"found": {"parts": []}}),
        ("ann", "none", {}),
        ("ann", "broken", {"error": "the source could not be looked up"}),
        ("ann", "lost", {"refused": "unknown_host"}),
    ],
)
def test_tables_of_sources_are_answered(principal, table, answer):
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        asked = {"datasource": "shop", "database": "public", "table": table}
        await engine.say(type="source", request_id="4", principal=principal, **asked)
        given = await engine.hear("source")
        if "access" in given:
            given["access"].pop("mark")
        given = {k: v for k, v in given.items() if v}
        assert given == {"type": "source", "request_id": "4", **answer}
        assert listener.sources == (("shop",) if "access" in answer else ())

    channel(scenario)


def test_what_a_statement_reads_is_known():
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        told = {"version": 3, "tables": {"a.b": ["x"]}, "is_whole": True}
        await engine.say(type="reads", statement="ab", **told)
        async with asyncio.timeout(LIMIT_SECONDS):
            while (found := listener.reads("ab")) is None:
                await asyncio.sleep(0)
        assert found == ReadTables(3, {"a.b": frozenset({"x"})})
        assert listener.reads("ab") is None, "it is not kept for nobody"
        assert listener.reads("cd") is None

    channel(scenario)


def test_what_nobody_asks_for_takes_little_room(monkeypatch):
    monkeypatch.setattr(control, "READS_TOLD", 2 * 310)

    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        told = {"version": 3, "tables": {"a.b": ["x", "y"]}, "is_whole": True}
        for statement in ("1", "2", "3"):
            await engine.say(type="reads", statement=statement, **told)
        async with asyncio.timeout(LIMIT_SECONDS):
            while not listener.reads("3"):
                await asyncio.sleep(0)
        assert not listener.reads("1")
        assert listener.reads("2")

    channel(scenario)


@pytest.mark.parametrize("now", [{}, {"shop": "2"}])
def test_how_a_source_was_reached_is_forgotten(monkeypatch, now):
    monkeypatch.setattr(control, "SOURCES_SECONDS", 0.01)
    monkeypatch.setattr(Questions, "versions", {"shop": "1"})

    async def scenario(listener, call):
        engine = await call()
        await engine.introduce()
        asked = {"principal": "ann", "datasource": "shop", "database": "public"}
        await engine.say(type="source", request_id="4", table="orders", **asked)
        assert (await engine.hear("source"))["access"]["mark"] == listener.mark
        monkeypatch.setattr(Questions, "versions", now)
        assert (await engine.hear("forget_source"))["source"] == "shop"
        assert listener.sources == ()

    channel(scenario)


@pytest.mark.parametrize("line", [
    b"{}\n", b"nonsense\n", b'{"type":"hello"}\n', b"\n", b"[]\n",
    b'{"type":"hello","secret":"\\u00fc"}\n', b'{"type":"hello","secret":"\\ud800"}\n',
    b'{"type":"hello","secret":"start-secret","engine_id":"e","pid":null,"port":1}\n',
    b'{"type":"hello","secret":"start-secret","engine_id":"e"}\n',
    b" " * 5000,
])  # fmt: skip
def test_strangers_are_not_welcomed(line):
    async def scenario(listener, call):
        stranger = await call()
        stranger.writer.write(line)
        assert await stranger.reader.read() == b""
        assert not listener.is_connected

    channel(scenario)


def test_a_wrong_secret_is_not_welcomed():
    async def scenario(listener, call):
        stranger = await call()
        await stranger.introduce(secret="start-secreT")
        assert await stranger.reader.read() == b""
        assert not listener.is_connected

    channel(scenario)


def test_another_process_starts_without_acknowledged_policies():
    async def scenario(listener, call):
        engine = await call()
        await engine.introduce(pid=7)
        await engine.hear("welcome")
        await engine.say(type="ack", principal="ann", version=4)
        again = await call()
        await again.introduce(pid=7)
        await again.hear("welcome")
        assert listener.acknowledged_version("ann") == 4
        other = await call()
        await other.introduce(pid=8)
        await other.hear("welcome")
        assert listener.acknowledged_version("ann") == -1

    channel(scenario)


def test_a_push_fails_at_once_when_the_engine_hangs_up():
    async def scenario(listener, call):
        with pytest.raises(EngineUnavailable):
            await listener.push_policy(POLICY)
        engine = await call()
        await engine.introduce()
        await engine.hear("welcome")
        push = asyncio.create_task(listener.push_policy(POLICY))
        await engine.hear("policy")
        engine.writer.close()
        with pytest.raises(EngineUnavailable):
            await asyncio.wait_for(push, LIMIT_SECONDS)

    channel(scenario)
