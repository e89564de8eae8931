"""The gateway's end of an engine's control channel: JSON lines on a unix socket.

Carries policies and heartbeats out, acknowledgements, look-ups and progress in. One
listener serves one engine process, which proves itself with its start secret and may
re-connect at any time. Must not know Thrift or the database.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from core.control_channel.framing import (
    LARGEST_GREETING,
    Message,
    MessageBuffer,
    encode,
    has_secret,
)
from core.errors import SluiceError
from core.sentences import Sentence
from gateway.engines.port import EngineQuestions, EngineUnavailable, Progress
from gateway.faults import waiting_for

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 2.0
SOURCES_SECONDS = 10.0
ACK_SECONDS = 10.0
HELLO_SECONDS = 10.0
STATEMENTS_TOLD = 1000
# Bytes of what they read, which is asked for while they run: of what is told too late,
# for statements that were left, the oldest goes.
READS_TOLD = 16 * 1024 * 1024
MAX_MESSAGE = 1024 * 1024
READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Hello:
    """How an engine introduced itself."""

    engine_id: str
    pid: int
    port: int


@dataclass(frozen=True, slots=True)
class _Listing:
    """How an engine's question for names is answered.

    answer  its type, and `member` of it what was found
    of      what the question says beside the user
    """

    answer: str
    member: str
    ask: Callable[..., Awaitable[object]]
    of: tuple[str, str]


class _ToldReads:
    """What statements read that the engine has told of and nobody has asked for."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[ReadTables, int]] = {}
        self._bytes = 0

    def put(self, statement: str, reads: ReadTables) -> None:
        self.take(statement)
        self._told[statement] = reads, reads.size
        self._bytes += reads.size
        while self._bytes > READS_TOLD or len(self._told) > STATEMENTS_TOLD:
            self.take(next(iter(self._told)))

    def take(self, statement: str) -> ReadTables | None:
        reads, size = self._told.pop(statement, (None, 0))
        self._bytes -= size
        return reads


class ControlListener:
    """Listens at `path`; the engine must say `secret` in its first line."""

    def __init__(self, path: Path, secret: str, questions: EngineQuestions) -> None:
        self.path = path
        self.hello: Hello | None = None
        # in a comment of every statement at a source: nobody else's can have it
        self.mark = f"sluice:sql:{secrets.token_hex(8)}"
        self._sources: dict[str, str] = {}
        self._secret = secret
        self._questions = questions
        here, there = ("database", "pattern"), ("datasource", "database")
        self._listings = {
            "list": _Listing("tables", "names", questions.list_tables, here),
            "columns": _Listing("columns", "tables", questions.columns_by_table, here),
            "live_names": _Listing("live_names", "names", questions.live_names, there),
        }
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._greeted = asyncio.Event()
        self._acknowledged: dict[str, int] = {}
        self._pushes: dict[str, list[tuple[int, asyncio.Future[None]]]] = {}
        self._progress: dict[str, Progress] = {}
        self._reads = _ToldReads()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to listen; the socket is this user's only."""
        self._server = await asyncio.start_unix_server(self._serve, path=str(self.path))
        self.path.chmod(0o600)

    async def close(self) -> None:
        if self._server:
            self._server.close()
        self._hang_up()
        for task in list(self._tasks):
            task.cancel()
        self.path.unlink(missing_ok=True)

    @property
    def is_connected(self) -> bool:
        """True while a welcomed engine is on the line."""
        return self._writer is not None

    async def wait_hello(self) -> Hello:
        await self._greeted.wait()
        if self.hello is None:
            raise EngineUnavailable(Sentence("the engine hung up"))
        return self.hello

    @property
    def sources(self) -> tuple[str, ...]:
        """Live sources that this engine process knows how to reach."""
        return tuple(self._sources)

    def acknowledged_version(self, principal: str) -> int:
        return self._acknowledged.get(principal, -1)

    async def push_policy(self, policy: PrincipalPolicy) -> None:
        done = asyncio.get_running_loop().create_future()
        entry = (policy.version, done)
        self._pushes.setdefault(policy.principal, []).append(entry)
        try:
            await self._send(_policy_line(policy))
            async with asyncio.timeout(ACK_SECONDS):
                await done
        except TimeoutError as error:
            raise EngineUnavailable(
                "the engine did not acknowledge policy version %(version)s within"
                " %(seconds)s s",
                version=policy.version,
                seconds=f"{ACK_SECONDS:.0f}",
            ) from error
        finally:
            waiting = self._pushes.get(policy.principal, [])
            if entry in waiting:
                waiting.remove(entry)
            if not waiting:
                self._pushes.pop(policy.principal, None)

    async def forget(self, principal: str) -> None:
        self._acknowledged.pop(principal, None)
        if self.is_connected:
            await self._send({"type": "forget", "principal": principal})

    async def shutdown(self) -> None:
        """Ask the engine to end itself; nothing happens when it is not there."""
        if self.is_connected:
            await self._send({"type": "shutdown"})

    def progress(self, statement: str) -> Progress | None:
        return self._progress.get(statement)

    def reads(self, statement: str) -> ReadTables | None:
        """Hand out, once, what the engine last told that a statement reads."""
        return self._reads.take(statement)

    async def _send(self, message: Mapping[str, object]) -> None:
        writer = self._writer
        if writer is None:
            raise EngineUnavailable(Sentence("the engine's control channel is closed"))
        try:
            writer.write(encode(message))
            await writer.drain()
        except (OSError, RuntimeError) as error:
            raise EngineUnavailable(
                "the control channel broke: %(error)s", error=error
            ) from error

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        background: list[asyncio.Task[None]] = []
        buffer = MessageBuffer(limit=LARGEST_GREETING, is_strict=True)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = _hello(await _next(reader, buffer), self._secret)
            if hello is None:
                log.warning(
                    "an unauthenticated peer opened an engine's control channel"
                )
                return
            self._welcome(hello, writer)
            await self._send({"type": "welcome"})
            for work in (self._beat(), self._watch_sources()):
                background.append(asyncio.create_task(work))
            buffer.limit = MAX_MESSAGE
            while (message := await _next(reader, buffer)) is not None:
                self._receive(message)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            TimeoutError,
            EngineUnavailable,
        ) as error:
            log.warning("control channel ended: %r", error)
        finally:
            for task in background:
                task.cancel()
            if self._writer is writer:
                self._hang_up()
            writer.close()

    def _welcome(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        if self.hello is None or self.hello.pid != hello.pid:
            self._acknowledged.clear()
        self._hang_up()
        self.hello, self._writer = hello, writer
        self._greeted.set()

    def _hang_up(self) -> None:
        if self._writer:
            self._writer.close()
        self._writer = None
        self._greeted.clear()
        for waiting in self._pushes.values():
            for _, done in waiting:
                if not done.done():
                    done.set_exception(
                        EngineUnavailable(Sentence("the engine hung up"))
                    )

    async def _beat(self) -> None:
        while True:
            versions = self._acknowledged.values()
            await self._send(
                {
                    "type": "heartbeat",
                    "db_read_age_ms": self._questions.db_read_age_ms(),
                    "policy_version": max(versions, default=-1),
                }
            )
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _watch_sources(self) -> None:
        """Let the engine drop addresses and passwords that are not those of now."""
        while True:
            await asyncio.sleep(SOURCES_SECONDS)
            if not self._sources:
                continue
            try:
                now = await self._questions.live_versions(self.sources)
            except Exception as error:  # noqa: BLE001  the next look may be answered
                log.warning("sources could not be looked up: %r", error)
                continue
            for name, version in list(self._sources.items()):
                if now.get(name) != version:
                    del self._sources[name]
                    await self._try_send({"type": "forget_source", "source": name})

    def _receive(self, message: Message) -> None:
        kind = message["type"]
        if kind == "ack":
            self._acknowledge(str(message["principal"]), int(message["version"]))
        elif kind == "lookup":
            self._spawn(self._answer_lookup(message))
        elif kind in self._listings:
            self._spawn(self._answer_listing(message))
        elif kind == "source":
            self._spawn(self._answer_source(message))
        elif kind == "progress":
            facts = {one.name: message[one.name] for one in fields(Progress)}
            facts["waits_for"] = waiting_for(facts["waits_for"])
            self._progress[str(message["statement"])] = Progress(**facts)
            if len(self._progress) > STATEMENTS_TOLD:
                self._progress.pop(next(iter(self._progress)))
        elif kind == "reads":
            self._reads.put(str(message["statement"]), _reads(message))

    def _acknowledge(self, principal: str, version: int) -> None:
        if version > self.acknowledged_version(principal):
            self._acknowledged[principal] = version
        for wanted, done in self._pushes.get(principal, []):
            if wanted <= version and not done.done():
                done.set_result(None)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_lookup(self, message: dict[str, Any]) -> None:
        answer: dict[str, object] = {
            "type": "table",
            "request_id": message["request_id"],
        }
        database, table = str(message["database"]), str(message["table"])
        datasource, _, source_database = database.rpartition(".")
        try:
            if datasource:
                answer["lake_name"] = await self._questions.lake_name_of(
                    datasource, source_database, table
                )
            found = await self._questions.look_up(database, table)
        except Exception as error:  # noqa: BLE001  the engine must get an answer
            log.warning("a look-up failed: %r", error)
            answer |= {"found": False, "error": "the catalogue could not be read"}
        else:
            answer["found"] = found is not None
            if found:
                answer |= {"path": found.path, "schema_version": found.schema_version}
        await self._try_send(answer)

    async def _answer_source(self, message: dict[str, Any]) -> None:
        answer: dict[str, object] = {
            "type": "source",
            "request_id": message["request_id"],
        }
        try:
            found = await self._questions.live_table(
                str(message["principal"]),
                str(message["datasource"]),
                str(message["database"]),
                str(message["table"]),
            )
        except SluiceError as error:
            # its words name the source's host, which is not for who may read a table
            log.warning("a source was not looked up: %s", error)
            answer["refused"] = error.code
        except Exception as error:  # noqa: BLE001  the engine must get an answer
            log.warning("a look-up at a source failed: %r", error)
            answer["error"] = "the source could not be looked up"
        else:
            if found:
                answer["found"] = found.table
            if found and found.access:
                self._sources[found.source] = found.version
                answer["access"] = {**found.access, "mark": self.mark}
        await self._try_send(answer)

    async def _answer_listing(self, message: dict[str, Any]) -> None:
        one = self._listings[message["type"]]
        answer: dict[str, object] = {
            "type": one.answer,
            "request_id": message["request_id"],
        }
        try:
            given = (str(message[name]) for name in ("principal", *one.of))
            answer[one.member] = await one.ask(*given)
        except Exception as error:  # noqa: BLE001  the engine must get an answer
            log.warning("a listing of %s failed: %r", one.answer, error)
            answer["error"] = "the catalogue could not be read"
        await self._try_send(answer)

    async def _try_send(self, answer: Mapping[str, object]) -> None:
        try:
            await self._send(answer)
        except EngineUnavailable:
            log.info("the engine hung up before its answer")


def _reads(message: Message) -> ReadTables:
    tables = {
        str(name): frozenset(map(str, columns))
        for name, columns in message["tables"].items()
    }
    return ReadTables(
        int(message["version"]), tables, is_whole=bool(message["is_whole"])
    )


def _policy_line(policy: PrincipalPolicy) -> dict[str, object]:
    return {
        "type": "policy",
        "principal": policy.principal,
        "version": policy.version,
        "active": policy.is_active,
        "admin": policy.is_admin,
        "select": list(policy.select),
        "discover": list(policy.discover),
        "sources": list(policy.sources),
        "sources_seen": list(policy.sources_seen),
        "tables": {
            name: {
                "columns": None if on.columns is None else sorted(on.columns),
                "filters": list(on.filters),
                "masks": [
                    {"column": column, "kind": mask.kind, "text": mask.text}
                    for column, mask in on.masks
                ],
            }
            for name, on in policy.tables.items()
        },
    }


async def _next(reader: asyncio.StreamReader, buffer: MessageBuffer) -> Message | None:
    """The engine's next message; None when it hangs up."""
    while (message := buffer.next()) is None:
        data = await reader.read(READ_BYTES)
        if not data:
            return None
        buffer.feed(data)
    return message


def _hello(message: Message | None, secret: str) -> Hello | None:
    if message is None or message.get("type") != "hello":
        return None
    if not has_secret(message, secret):
        return None
    return Hello(str(message["engine_id"]), int(message["pid"]), int(message["port"]))
