"""The gateway's internal HTTP API for the web process: statements, sessions, state.

Loopback only, every call carries the service secret and names the principal, whom the
web process has authenticated. A small HTTP/1.1 server: one JSON object each way.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from prometheus_client import generate_latest

from core.errors import AccessDenied, InvalidRequest, NotFound, SluiceError
from gateway.engines.port import EngineUnavailable
from gateway.engines.supervisor import EngineSupervisor
from gateway.metrics import REGISTRY
from gateway.session_service import SessionService
from gateway.statement_service import StatementService
from gateway.store import Store
from gateway.work_queue import DatabaseAway

log = logging.getLogger(__name__)

MAX_BODY = 2 * 1024 * 1024
IDLE_SECONDS = 75.0
_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 401: "Unauthorized",
            403: "Forbidden", 404: "Not Found", 409: "Conflict",
            500: "Internal Server Error", 503: "Service Unavailable"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    parts: tuple[str, ...]
    query: dict[str, str]
    body: dict[str, Any]
    user: str


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    kind: str = "application/json"


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
    ) -> None:
        self._statements = statements
        self._sessions = sessions
        self._store = store
        self._supervisor = supervisor
        self._secret = secret
        self._server: asyncio.Server | None = None
        self._routes: dict[tuple[str, int], Callable[[_Call], Awaitable[_Answer]]] = {
            ("POST", 1): self._submit,
            ("GET", 2): self._show,
            ("GET", 3): self._results,
            ("POST", 3): self._cancel,
        }

    async def start(self) -> int:
        """Listen on a free loopback port and return it."""
        self._statements.open()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening."""
        if self._server:
            self._server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                async with asyncio.timeout(IDLE_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    answer = await self._answer(head, reader)
                reason = _REASONS.get(answer.status, "")
                writer.write(
                    f"HTTP/1.1 {answer.status} {reason}\r\n"
                    f"Content-Type: {answer.kind}\r\n"
                    f"Content-Length: {len(answer.body)}\r\n\r\n".encode()
                    + answer.body
                )
                await writer.drain()
        except (
            OSError,
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            return
        finally:
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader) -> _Answer:
        try:
            method, target, headers = _parse(head)
            raw = b""
            length = int(headers.get("content-length", "0"))
            if length > MAX_BODY:
                raise InvalidRequest("the body is too large")
            if length:
                raw = await reader.readexactly(length)
            self._require_secret(headers)
            return await self._route(method, target, headers, raw)
        except SluiceError as error:
            return _problem(error)
        except ValueError as error:
            return _problem(InvalidRequest(f"the request is malformed: {error}"))
        except Exception:
            log.exception("the internal API failed")
            return _json(500, {"code": "error", "message": "the gateway failed"})

    async def _route(
        self, method: str, target: str, headers: dict[str, str], raw: bytes
    ) -> _Answer:
        url = urlsplit(target)
        parts = tuple(part for part in url.path.split("/") if part)
        if parts == ("metrics",):
            return _Answer(200, generate_latest(REGISTRY), "text/plain; version=0.0.4")
        if parts == ("state",):
            return _json(200, self._state())
        if parts[:1] == ("sessions",):
            return await self._about_sessions(method, parts)
        route = self._routes.get((method, len(parts)))
        if not parts or parts[0] != "statements" or route is None:
            raise NotFound("there is no such address")
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        user = unquote(headers.get("x-sluice-principal", ""))
        if not user:
            raise InvalidRequest("the principal is missing")
        body = json.loads(raw) if raw else {}
        return await route(_Call(method, parts, query, body, user))

    def _require_secret(self, headers: dict[str, str]) -> None:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise AccessDenied("the service secret is wrong", code="bad_credentials")

    def _state(self) -> dict[str, object]:
        facts = asdict(self._supervisor.facts())
        return {
            "engine": facts,
            "database_read_age_ms": self._store.db_read_age_ms(),
            "audit_lost": self._store.audit_lost,
        }

    async def _about_sessions(self, method: str, parts: tuple[str, ...]) -> _Answer:
        if (method, len(parts)) == ("GET", 1):
            return _json(200, {"items": self._sessions.describe_all()})
        if (method, len(parts)) == ("DELETE", 2):
            return _json(200, await self._sessions.end(parts[1]))
        raise NotFound("there is no such address")

    async def _submit(self, call: _Call) -> _Answer:
        sql = call.body.get("sql")
        if not isinstance(sql, str) or not sql.strip():
            raise InvalidRequest("sql is missing")
        statement = await self._statements.submit(
            call.user,
            sql,
            row_limit=call.body.get("row_limit"),
            database=str(call.body.get("database") or ""),
        )
        await self._statements.wait(
            statement, float(call.body.get("wait_seconds") or 0)
        )
        status = 200 if statement.done.is_set() else 202
        return _json(status, statement.describe())

    async def _show(self, call: _Call) -> _Answer:
        statement = self._statements.find(call.user, call.parts[1])
        await self._statements.wait(
            statement, float(call.query.get("wait_seconds", "0"))
        )
        return _json(200, statement.describe())

    async def _results(self, call: _Call) -> _Answer:
        if call.parts[2] != "results":
            raise NotFound("there is no such address")
        statement = self._statements.find(call.user, call.parts[1])
        number = int(call.query.get("page", "0"))
        return _json(
            200, await asyncio.to_thread(self._statements.page, statement, number)
        )

    async def _cancel(self, call: _Call) -> _Answer:
        if call.parts[2] != "cancel":
            raise NotFound("there is no such address")
        statement = self._statements.find(call.user, call.parts[1])
        await self._statements.cancel(statement)
        return _json(200, statement.describe())


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return method, target, headers


def _json(status: int, body: object) -> _Answer:
    return _Answer(status, json.dumps(body, default=str).encode())


def _problem(error: SluiceError) -> _Answer:
    status = 500
    if isinstance(error, NotFound):
        status = 404
    elif isinstance(error, AccessDenied):
        status = 401 if error.code == "bad_credentials" else 403
    elif isinstance(error, InvalidRequest):
        status = 409 if error.code == "no_result" else 400
    elif isinstance(error, EngineUnavailable | DatabaseAway):
        status = 503
    return _json(
        status, {"code": error.code, "message": error.message, "hint": error.hint}
    )
