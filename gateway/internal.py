"""The gateway's internal HTTP API for the web process: statements, sessions, state.

Loopback only. Every call carries the service secret; calls about statements name the
principal, whom the web process has authenticated. One JSON object each way.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any, BinaryIO
from urllib.parse import unquote

from aiohttp import web
from prometheus_client import generate_latest

from core.errors import (
    AccessDenied,
    InvalidRequest,
    NotFound,
    SluiceError,
    TransientError,
)
from core.sentences import Sentence, origins_in
from gateway.engines.supervisor import EngineSupervisor
from gateway.metrics import REGISTRY
from gateway.response_memory_limit import ReplyRoom
from gateway.session_service import SessionService
from gateway.statement_service import NoSuchStatement, Statement, StatementService
from gateway.store import Store

log = logging.getLogger(__name__)

MAX_BODY = 2 * 1024 * 1024
MAX_HEADER = 8 * 1024
MAX_HEADERS = 32
# for a whole request to arrive, for its answer, and between two of them
IDLE_SECONDS = 75.0
STOP_SECONDS = 1.0
# of a page of rows, in memory at a time
SLICE = 256 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class InternalApi:
    """Serves the web process."""

    def __init__(
        self,
        statements: StatementService,
        store: Store,
        supervisor: EngineSupervisor,
        *,
        sessions: SessionService,
        secret: str,
        room: ReplyRoom,
    ) -> None:
        self._statements = statements
        self._sessions = sessions
        self._store = store
        self._supervisor = supervisor
        self._secret = secret
        self._room = room
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        self._statements.open()
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            max_headers=MAX_HEADERS,
            shutdown_timeout=STOP_SECONDS,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        if self._runner:
            await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(
            middlewares=[_problems_as_json, self._authenticate, self._send],
            client_max_size=MAX_BODY,
        )
        application.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/state", self._state),
                web.get("/sessions", self._list_sessions),
                web.delete("/sessions/{id}", self._end_session),
                web.post("/statements", self._submit),
                web.get("/statements/{id}", self._show),
                web.get("/statements/{id}/results", self._results),
                web.post("/statements/{id}/cancel", self._cancel),
            ]
        )
        return application

    @web.middleware
    async def _authenticate(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise AccessDenied("the service secret is wrong", code="bad_credentials")
        return await handler(request)

    @web.middleware
    async def _send(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Send what is not sent yet; its bytes are counted until they are taken."""
        answer = await handler(request)
        if not answer.prepared:
            with self._room.count(answer.content_length or 0):
                async with _sending(request):
                    await answer.prepare(request)
                    await answer.write_eof()
        return answer

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), content_type="text/plain")

    async def _state(self, _: web.Request) -> web.Response:
        engine = self._supervisor.facts()
        return _json(
            {
                "engine": {
                    **asdict(engine),
                    "running_statements": self._statements.running,
                },
                "database_read_age_ms": self._store.db_read_age_ms(),
                "audit_lost": self._store.audit_lost,
                "sentences": origins_in([engine.reason]),
            }
        )

    async def _list_sessions(self, _: web.Request) -> web.Response:
        return _json({"items": self._sessions.describe_all()})

    async def _end_session(self, request: web.Request) -> web.Response:
        return _json(await self._sessions.end(request.match_info["id"]))

    async def _submit(self, request: web.Request) -> web.Response:
        user = _principal(request)
        body = await _body_of(request)
        sql = body.get("sql")
        if not isinstance(sql, str) or not sql.strip():
            raise InvalidRequest("sql is missing")
        statement = await self._statements.submit(
            user,
            sql,
            row_limit=body.get("row_limit"),
            database=str(body.get("database") or ""),
        )
        await self._statements.wait(statement, float(body.get("wait_seconds") or 0))
        status = 200 if statement.done.is_set() else 202
        return _json(self._statements.describe(statement), status=status)

    async def _show(self, request: web.Request) -> web.Response:
        statement = self._find(request)
        seconds = float(request.query.get("wait_seconds", "0"))
        await self._statements.wait(statement, seconds)
        return _json(self._statements.describe(statement))

    async def _results(self, request: web.Request) -> web.StreamResponse:
        """A line about pages, then these; they go from the file to the socket as they
        lie there."""
        statement, number = self._find(request), int(request.query.get("page", "0"))
        is_several = request.query.get("several") == "1"
        found = self._statements.pages(statement, number, several=is_several)
        head = _encoded(found.facts) + b"\n"
        if found.stored is None:
            return web.Response(body=head)
        async with self._room.hold(len(head) + min(found.stored.size, SLICE)):
            try:
                rows = await asyncio.to_thread(found.result.open, found.stored)
            except FileNotFoundError:
                raise NoSuchStatement(
                    Sentence("the statement was swept away")
                ) from None
            with rows:
                return await _send_rows(request, head, (rows, found.stored.size))

    async def _cancel(self, request: web.Request) -> web.Response:
        statement = self._find(request)
        await self._statements.cancel(statement)
        return _json(self._statements.describe(statement))

    def _find(self, request: web.Request) -> Statement:
        return self._statements.find(_principal(request), request.match_info["id"])


@web.middleware
async def _problems_as_json(
    request: web.Request, handler: Handler
) -> web.StreamResponse:
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            return await handler(request)
    except TimeoutError:
        return problem(InvalidRequest("the request took too long", code="too_slow"))
    except web.HTTPRequestEntityTooLarge:
        return problem(InvalidRequest("the body is too large"))
    except web.HTTPClientError:
        return problem(NotFound("there is no such address"))
    except SluiceError as error:
        return problem(error)
    except ValueError as error:
        return problem(InvalidRequest(f"the request is malformed: {error}"))
    except Exception:
        log.exception("the internal API failed")
        failed = {"code": "error", "message": Sentence("the gateway failed")}
        return _json(failed, status=500)


async def _send_rows(
    request: web.Request, head: bytes, rows_and_size: tuple[BinaryIO, int]
) -> web.StreamResponse:
    rows, left = rows_and_size
    answer = web.StreamResponse()
    answer.content_length = len(head) + left
    async with _sending(request):
        await answer.prepare(request)
        await answer.write(head)
        while left:
            part = await asyncio.to_thread(rows.read, min(left, SLICE))
            if not part:
                raise OSError("a stored page is shorter than it was written")
            left -= len(part)
            await answer.write(part)
        await answer.write_eof()
    return answer


@contextlib.asynccontextmanager
async def _sending(request: web.Request) -> AsyncIterator[None]:
    """What is written has left the process; a reply that does not end ends its
    connection, for a second one would be read as the rest of it."""
    transport = request.transport
    if transport:
        transport.set_write_buffer_limits(high=0)
    try:
        yield
    except ConnectionError:
        log.debug("the web process left before it had its answer")
    except BaseException:
        if transport:
            transport.abort()
        raise


def _principal(request: web.Request) -> str:
    user = unquote(request.headers.get("X-Sluice-Principal", ""))
    if not user:
        raise InvalidRequest("the principal is missing")
    return user


async def _body_of(request: web.Request) -> dict[str, Any]:
    body = await request.json()
    if not isinstance(body, dict):
        raise InvalidRequest("the body is not a JSON object")
    return body


def _json(body: object, *, status: int = 200) -> web.Response:
    raw = _encoded(body)
    return web.Response(status=status, body=raw, content_type="application/json")


def _encoded(body: object) -> bytes:
    return json.dumps(body, default=str).encode()


def problem(error: SluiceError) -> web.Response:
    """What the web process raises again, with what its sentences were made of."""
    body = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "sentences": origins_in([error.message, error.hint]),
    }
    return _json(body, status=_status_of(error))


def _status_of(error: SluiceError) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, AccessDenied):
        return 401 if error.code == "bad_credentials" else 403
    if isinstance(error, InvalidRequest):
        return 409 if error.code == "no_result" else 400
    return 503 if isinstance(error, TransientError) else 500
