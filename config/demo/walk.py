"""The main job over public surfaces: source, discovery, onboarding, LIVE, queries."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pyhive import hive
from thrift.Thrift import TException

from core.errors import TerminalError

# ------------------------------------------------------------------ a client of REST


JOB_SECONDS = 180.0
# The web may be starting, or be started again.
ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Rest:
    """`base` is the web address without /api/v1."""

    base: str
    token: str

    def call(self, method: str, path: str, body: object = None) -> Reply:
        """The reply whatever its status, 0 when nobody answered; what only reads is
        asked again until somebody does."""
        limit = time.monotonic() + ANSWER_SECONDS
        while True:
            reply = self._once(method, path, body)
            if reply.status or method != "GET" or time.monotonic() > limit:
                return reply
            time.sleep(0.3)

    def _once(self, method: str, path: str, body: object) -> Reply:
        request = urllib.request.Request(
            f"{self.base}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return Reply(reply.status, _decoded(reply.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, _decoded(error.read()))
        except OSError as error:
            return Reply(0, {"title": str(error)})

    def demand(self, method: str, path: str, body: object = None) -> Any:
        """The body of a success; TerminalError with the problem's own words."""
        return _accepted(f"{method} {path}", self.call(method, path, body))

    def find(self, path: str) -> Any:
        """What is there; None when nothing is."""
        reply = self.call("GET", path)
        return None if reply.status == 404 else _accepted(f"GET {path}", reply)

    def wait_job(self, job: dict[str, Any], say: Callable[[str], None]) -> None:
        """Follow a job until it ends; its progress is shown when it changes."""
        limit, shown = time.monotonic() + JOB_SECONDS, ""
        while time.monotonic() < limit:
            found = self.demand("GET", f"/jobs/{job['id']}")
            progress = found.get("progress") or {}
            line = _progress_line(progress)
            if line != shown and line:
                say(f"  {line}")
                shown = line
            if found["state"] == "SUCCEEDED":
                return
            if found["state"] in {"FAILED", "CANCELLED"}:
                error = found.get("error") or {}
                raise TerminalError(
                    f"job {found['kind']} of {found['subject']} ended "
                    f"{found['state']}: {error.get('message', '')}",
                    hint=str(error.get("hint", "")),
                )
            time.sleep(0.3)
        raise TerminalError(f"job {job['id']} did not end in {JOB_SECONDS:.0f} s")


def _accepted(asked: str, reply: Reply) -> Any:
    if 200 <= reply.status < 300:
        return reply.body
    problem = reply.body if isinstance(reply.body, dict) else {}
    text = problem.get("detail") or problem.get("title") or "no explanation"
    raise TerminalError(
        f"{asked} answered {reply.status}: {text}", hint=str(problem.get("hint", ""))
    )


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return {"title": raw[:200].decode(errors="replace")}


def _progress_line(progress: dict[str, Any]) -> str:
    done, total = progress.get("done"), progress.get("total")
    if not done:
        return ""
    of = f" of {total}" if total else ""
    return (
        f"{progress.get('phase', '')}: {done}{of} {progress.get('unit') or ''}".strip()
    )


Say = Callable[[str], None]
SOURCE = "demo"
TABLES = ("customers", "products", "orders", "order_items")
SHOP_SECONDS, LIVE_SECONDS, CHANGE_SECONDS = 90.0, 540.0, 120.0
QUERY_SECONDS = 240.0


def walk(home: Path, say: Say) -> None:
    """All steps; each may have been done by an earlier run. TerminalError otherwise."""
    started = time.monotonic()
    connection = _connection_with_shop(home)
    rest = Rest(connection["web_url"], connection["token"])
    register(rest, connection["demo_source"], say)
    say("discovering its tables")
    rest.wait_job(rest.demand("POST", f"/datasources/{SOURCE}:discover"), say)
    onboard(rest, say)
    wait_live(rest, say)
    say(f"first lake tables are live after {time.monotonic() - started:.0f} s")
    query(connection, say)
    delete(connection, say)


def _connection_with_shop(home: Path) -> dict[str, Any]:
    limit = time.monotonic() + SHOP_SECONDS
    while time.monotonic() < limit:
        found: dict[str, Any] = json.loads((home / "connection.json").read_text())
        if found["demo_source"]:
            return found
        time.sleep(0.2)
    raise TerminalError(
        "the demo shop is not there", hint=f"see {home}/logs/demo_writer.log"
    )


def register(rest: Rest, shop: dict[str, Any], say: Say) -> None:
    """The shop as a datasource, tested. A second run corrects address and password."""
    address = {key: value for key, value in shop.items() if key != "kind"}
    if rest.find(f"/datasources/{SOURCE}") is None:
        body = {"name": SOURCE, "kind": shop["kind"], **address, "tls": "off"}
        rest.demand("POST", "/datasources", {**body, "options": {}})
    else:
        rest.demand("PATCH", f"/datasources/{SOURCE}", address)
    say(f"registered source '{SOURCE}' at {shop['host']}:{shop['port']}, testing it")
    rest.wait_job(rest.demand("POST", f"/datasources/{SOURCE}:test"), say)


def onboard(rest: Rest, say: Say) -> None:
    """Every table of the shop that the lake does not have yet, in one request."""
    found = {name: _table(rest, name) for name in TABLES}
    for name, table in found.items():
        if table and table["status"] in {"FAILED", "PAUSED"}:
            say(f"resuming {name}, which an earlier run left {table['status']}")
            rest.demand("POST", f"/tables/{table['id']}:resume")
    missing = [name for name, table in found.items() if table is None]
    if not missing:
        say("its tables are in the lake already")
        return
    say(f"onboarding {', '.join(missing)}: a load each, then the source's log")
    body = {
        "datasource": SOURCE,
        "include": ["public.*"],
        "capture": "log",
        "approve": True,
    }
    rest.demand("POST", "/onboardings", body)


def _table(rest: Rest, name: str) -> dict[str, Any] | None:
    found = rest.find(f"/tables?name=lake.{SOURCE}.{name}")
    return None if found is None else found["items"][0]


def wait_live(rest: Rest, say: Say) -> None:
    """Return when all are LIVE; what changed is said, with numbers where there are."""
    limit, shown = time.monotonic() + LIVE_SECONDS, ""
    while time.monotonic() < limit:
        found = {name: _table(rest, name) for name in TABLES}
        states = {name: one["status"] if one else "-" for name, one in found.items()}
        line = ", ".join(f"{name} {state}" for name, state in states.items())
        if line != shown:
            say(f"  {line}")
            shown = line
        if all(state == "LIVE" for state in states.values()):
            return
        for name, one in found.items():
            if one and one["status"] in {"FAILED", "NEEDS_RESYNC"}:
                raise TerminalError(
                    f"{name} is {one['status']}: {one['status_reason']}",
                    hint="the table's page shows its jobs and their logs",
                )
        time.sleep(0.5)
    raise TerminalError(f"not all tables were live in {LIVE_SECONDS:.0f} s: {shown}")


def query(connection: dict[str, Any], say: Say) -> None:
    """Counts through the gateway, then the same count again after the shop sold."""
    say(f"querying through the gateway, {connection['jdbc_url']}")
    limit = time.monotonic() + QUERY_SECONDS
    while True:
        try:
            with _connect(connection) as link, link.cursor() as cursor:
                _show_moving(cursor, say)
            return
        except (hive.Error, TException, OSError) as error:
            # 08S01: the first engine may still be starting on a busy machine
            if time.monotonic() > limit:
                raise TerminalError(
                    f"the gateway refused a query: {_message(error)}",
                    hint="see gateway.log and engine-*.log",
                ) from error
            say(f"  not yet: {_message(error)}")
            time.sleep(3.0)


def delete(connection: dict[str, Any], say: Say) -> None:
    """An order is deleted at the source, and is gone from the lake."""
    with _shop(connection["demo_source"]) as shop:
        shop.execute(
            "DELETE FROM order_items WHERE order_id = (SELECT min(id) FROM orders)"
        )
        (order,) = shop.execute(
            "DELETE FROM orders WHERE id = (SELECT min(id) FROM orders) RETURNING id"
        ).fetchone() or (0,)
    deleted = time.monotonic()
    say(f"deleted order {order} at the source")
    with _connect(connection) as link, link.cursor() as cursor:
        count = f"SELECT count(*) FROM {_lake('orders')} WHERE id = {int(order)}"
        while time.monotonic() < deleted + CHANGE_SECONDS:
            if _row(cursor, count)[0] == 0:
                say(f"  gone from the lake after {time.monotonic() - deleted:.1f} s")
                return
            time.sleep(0.2)
    raise TerminalError(
        f"order {order} is in the lake still", hint="see the source's Pipeline page"
    )


def _shop(source: dict[str, Any]) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host=source["host"],
        port=source["port"],
        dbname=source["database"],
        user=source["username"],
        password=source["password"],
    )


def _connect(connection: dict[str, Any]) -> Any:
    return hive.connect(
        **way_in(connection),
        host=connection["gateway"]["host"],
        username=connection["username"],
        password=connection["password"],
    )


def way_in(connection: dict[str, Any]) -> dict[str, Any]:
    """PyHive has TLS over HTTP only. It is our own gateway that we connect to, and the
    certificate may be for another name than the address that it is reached by here."""
    gateway = connection["gateway"]
    if ";ssl=true" not in connection["jdbc_url"]:
        return {"port": gateway["port"], "auth": "CUSTOM"}
    return {
        "port": gateway["http_port"],
        "scheme": "https",
        "auth": "BASIC",
        "ssl_cert": "none",
    }


def _show_moving(cursor: Any, say: Say) -> None:
    for name in TABLES:
        say(
            f"  {name}: {_row(cursor, f'SELECT count(*) FROM {_lake(name)}')[0]:,} rows"
        )
    newest = f"SELECT count(*), max(id), max(updated_at) FROM {_lake('orders')}"
    first = _row(cursor, newest)
    say(f"  orders now: {first[0]:,}, newest {first[1]} at {first[2]}")
    limit = time.monotonic() + CHANGE_SECONDS
    while time.monotonic() < limit:
        later = _row(cursor, newest)
        if later[1] > first[1]:
            say(f"  orders later: {later[0]:,}, newest {later[1]} at {later[2]}")
            return
        time.sleep(1.0)
    raise TerminalError("no new order arrived in the lake", hint="see the table's page")


def _lake(name: str) -> str:
    return f"lake.{SOURCE}.{name}"


def _row(cursor: Any, sql: str) -> Any:
    cursor.execute(sql)
    return cursor.fetchone()


def _message(error: Exception) -> str:
    """PyHive puts the whole Thrift reply into its error."""
    status = getattr(error.args[0], "status", None) if error.args else None
    return str(getattr(status, "errorMessage", None) or error)[:300]
