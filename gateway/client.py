"""How the web process asks the gateway process: statements, results, state.

One short HTTP call on loopback with the service secret and the principal, whom the
caller has authenticated. Used by REST and by the pages.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django.conf import settings
from prometheus_client.core import GaugeMetricFamily, Metric

from catalog.access import audit
from core.errors import (
    AccessDenied,
    InvalidRequest,
    NotFound,
    SluiceError,
    StaleState,
    TransientError,
)
from core.sentences import with_sentences
from gateway.arrow_rows import batch_of, json_rows

if TYPE_CHECKING:
    import pyarrow

MARGIN_SECONDS = 10.0
# Of rows that are shown together, unpacked; a page of the engine has as many at most.
SHOWN_BYTES = 1024 * 1024
_ERRORS: dict[int, type[SluiceError]] = {
    400: InvalidRequest,
    403: AccessDenied,
    404: NotFound,
    409: StaleState,
}


class GatewayAway(TransientError):
    """The gateway process does not answer."""

    default_code: ClassVar[str] = "gateway_unavailable"


def submit_statement(
    user: str,
    sql: str,
    *,
    wait_seconds: float,
    row_limit: int | None = None,
    database: str = "",
) -> dict[str, Any]:
    """Start a statement as `user`; wait up to `wait_seconds` (30 at most) for its end.

    Returns {id, state, columns, rows_so_far, is_truncated, error, progress}.
    """
    body = {
        "sql": sql,
        "wait_seconds": wait_seconds,
        "row_limit": row_limit,
        "database": database,
    }
    return _ask("POST", "/statements", user=user, body=body, wait=wait_seconds)


def statement_of(
    user: str, statement_id: str, *, wait_seconds: float = 0.0
) -> dict[str, Any]:
    """The user's statement; NotFound for anybody else's or one swept away."""
    path = f"/statements/{quote(statement_id, safe='')}?wait_seconds={wait_seconds}"
    return _ask("GET", path, user=user, wait=wait_seconds)


def columns_of(user: str, statement_id: str) -> list[dict[str, Any]]:
    """Name and type of each column of a result; [] of a statement without one."""
    facts, _ = _pages_at(user, statement_id, page=0)
    columns: list[dict[str, Any]] = facts["columns"]
    return columns


def results_of(user: str, statement_id: str, *, page: int) -> dict[str, Any]:
    """One page of rows: {columns, first_row, rows, next_page, previous_page}; rows
    count from 0, next_page is None at the end. A page has 500 rows at most, and fewer
    only where they are large.
    """
    facts, pages = _pages_at(user, statement_id, page=page)
    rows: list[list[Any]] = []
    held = 0
    for number, batch in enumerate(pages, start=page):
        held += batch.nbytes
        if rows and held > SHOWN_BYTES:
            return {**facts, "rows": rows, "next_page": number}
        rows += json_rows(batch)
    return {**facts, "rows": rows}


def batches_of(user: str, statement_id: str) -> Iterator[pyarrow.RecordBatch]:
    """The rows of all pages in order, several pages read at a time."""
    page: int | None = 0
    while page is not None:
        facts, pages = _pages_at(user, statement_id, page=page, several=True)
        yield from pages
        page = facts["next_page"]


def _pages_at(
    user: str, statement_id: str, *, page: int, several: bool = False
) -> tuple[dict[str, Any], Iterator[pyarrow.RecordBatch]]:
    """What there is to say of a page, and its rows; `several`: those behind it, too.

    A page is unpacked when it is its turn: 4 MiB of equal values are gigabytes then.
    """
    path = f"/statements/{quote(statement_id, safe='')}/results"
    query = f"?page={page}&several={int(several)}"
    status, raw = _exchange("GET", path + query, user=user, body=None, wait=0)
    head, _, stored = raw.partition(b"\n")
    facts = _answer(status, head)
    rows, sizes = facts.pop("rows"), facts.pop("sizes")
    return facts, _unpacked(stored, sizes, rows=rows)


def _unpacked(
    stored: bytes, sizes: list[int], *, rows: int
) -> Iterator[pyarrow.RecordBatch]:
    offset = 0
    for size in sizes:
        batch = batch_of(stored[offset : offset + size], rows)
        rows -= batch.num_rows
        offset += size
        yield batch


def cancel_statement(user: str, statement_id: str) -> dict[str, Any]:
    """Stop a statement and its Spark job; returns it as it then is."""
    path = f"/statements/{quote(statement_id, safe='')}/cancel"
    return _ask("POST", path, user=user)


def open_sessions() -> list[dict[str, Any]]:
    """The HiveServer2 sessions that are open, the oldest first. For administrators."""
    found: list[dict[str, Any]] = _ask("GET", "/sessions")["items"]
    return found


def close_session(session_id: str) -> dict[str, Any]:
    """End a session and its statements, audited; returns it as it was."""
    ended = _ask("DELETE", f"/sessions/{quote(session_id, safe='')}")
    facts = {"session": ended["id"], "client_address": ended["address"]}
    audit.record("session.close", on=ended["user"], **facts)
    return ended


def gateway_state() -> dict[str, Any]:
    """{engine: facts, database_read_age_ms, audit_lost} of the running gateway."""
    return _ask("GET", "/state")


def _ask(
    method: str,
    path: str,
    *,
    user: str = "",
    body: dict[str, Any] | None = None,
    wait: float = 0.0,
) -> dict[str, Any]:
    return _answer(*_exchange(method, path, user=user, body=body, wait=wait))


def _answer(status: int, raw: bytes) -> dict[str, Any]:
    try:
        answer = with_sentences(json.loads(raw))
    except ValueError as error:
        raise GatewayAway("the gateway gave no sensible answer") from error
    if status in {200, 202}:
        return answer
    raise _ERRORS.get(status, GatewayAway)(
        answer.get("message", "the gateway failed"),
        code=str(answer.get("code", "error")),
        hint=answer.get("hint", ""),
    )


def _exchange(
    method: str, path: str, *, user: str, body: dict[str, Any] | None, wait: float
) -> tuple[int, bytes]:
    host, port = _address()
    connection = http.client.HTTPConnection(host, port, timeout=wait + MARGIN_SECONDS)
    headers = {
        "Authorization": f"Bearer {settings.SLUICE_SERVICE_SECRET}",
        "X-Sluice-Principal": quote(user, safe=""),
    }
    try:
        raw = None if body is None else json.dumps(body).encode()
        connection.request(method, path, body=raw, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise GatewayAway(
            "the gateway process does not answer (%(error)s)",
            error=type(error).__name__,
            hint="is it running? see manage.py doctor",
        ) from error
    finally:
        connection.close()


def _address() -> tuple[str, int]:
    try:
        facts = json.loads(Path(settings.SLUICE_GATEWAY_INTERNAL).read_text())
        return str(facts["host"]), int(facts["port"])
    except (OSError, ValueError, KeyError) as error:
        raise GatewayAway(
            "the gateway process is not running",
            hint="start it: manage.py gateway (or make demo)",
        ) from error


def gauges() -> Iterator[Metric]:
    """What /metrics of the web process says of the gateway, asked of it each time.

    Nothing while the gateway does not answer: 0 would say that all is well.
    """
    try:
        state = gateway_state()
    except SluiceError:
        return
    yield GaugeMetricFamily(
        "sluice_gateway_audit_lines_lost",
        "Lines of the audit that could not be written since the gateway's start",
        value=state["audit_lost"],
    )
