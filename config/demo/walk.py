"""The main job over public surfaces: source, discovery, onboarding, LIVE, queries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyhive import hive

from config.demo.rest import Rest
from core.errors import TerminalError

Say = Callable[[str], None]
SOURCE = "demo"
TABLES = ("customers", "products", "orders", "order_items")
EVERY_SECONDS = 10
SHOP_SECONDS, LIVE_SECONDS, CHANGE_SECONDS = 90.0, 540.0, 120.0
QUERY_TRIES = 5


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
    if rest.call("GET", f"/datasources/{SOURCE}").status == 200:
        rest.demand("PATCH", f"/datasources/{SOURCE}", address)
    else:
        body = {"name": SOURCE, "kind": shop["kind"], **address, "tls": "off"}
        rest.demand("POST", "/datasources", {**body, "options": {}})
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
    say(f"onboarding {', '.join(missing)}: snapshot, then every {EVERY_SECONDS} s")
    body = {
        "datasource": SOURCE,
        "include": ["public.*"],
        "capture": "timestamp",
        "schedule": {"every_seconds": EVERY_SECONDS},
        "approve": True,
    }
    rest.demand("POST", "/onboardings", body)


def _table(rest: Rest, name: str) -> dict[str, Any] | None:
    reply = rest.call("GET", f"/tables?name=lake.{SOURCE}.{name}")
    if reply.status != 200:
        return None
    items: list[dict[str, Any]] = reply.body.get("items", [reply.body])
    return items[0] if items else None


def wait_live(rest: Rest, say: Say) -> None:
    """Return when all are LIVE; what changed is said, with numbers where there are."""
    limit, told = time.monotonic() + LIVE_SECONDS, ""
    while time.monotonic() < limit:
        found = {name: _table(rest, name) for name in TABLES}
        states = {name: one["status"] if one else "-" for name, one in found.items()}
        line = ", ".join(f"{name} {state}" for name, state in states.items())
        if line != told:
            say(f"  {line}")
            told = line
        if all(state == "LIVE" for state in states.values()):
            return
        for name, one in found.items():
            if one and one["status"] in {"FAILED", "NEEDS_RESYNC"}:
                raise TerminalError(
                    f"{name} is {one['status']}: {one['status_reason']}",
                    hint="the table's page shows its jobs and their logs",
                )
        time.sleep(0.5)
    raise TerminalError(f"not all tables were live in {LIVE_SECONDS:.0f} s: {told}")


def query(connection: dict[str, Any], say: Say) -> None:
    """Counts through the gateway, then the same count again after the shop sold."""
    say(f"querying through the gateway, {connection['jdbc_url']}")
    with _connect(connection) as link, link.cursor() as cursor:
        for name in TABLES:
            cursor.execute(f"SELECT count(*) FROM lake.{SOURCE}.{name}")
            say(f"  {name}: {cursor.fetchone()[0]:,} rows")
        newest = f"SELECT count(*), max(id), max(updated_at) FROM lake.{SOURCE}.orders"
        cursor.execute(newest)
        first = cursor.fetchone()
        say(f"  orders now: {first[0]:,}, newest {first[1]} at {first[2]}")
        limit = time.monotonic() + CHANGE_SECONDS
        while time.monotonic() < limit:
            cursor.execute(newest)
            later = cursor.fetchone()
            if later[1] > first[1]:
                say(f"  orders later: {later[0]:,}, newest {later[1]} at {later[2]}")
                return
            time.sleep(1.0)
    raise TerminalError("no new order arrived in the lake", hint="see the table's page")


def _connect(connection: dict[str, Any]) -> Any:
    """The gateway may be starting its first engine: a few tries."""
    for attempt in range(QUERY_TRIES):
        try:
            return hive.connect(
                host=connection["gateway"]["host"],
                port=connection["gateway"]["port"],
                username=connection["username"],
                password=connection["password"],
                auth="CUSTOM",
            )
        except Exception as error:
            if attempt == QUERY_TRIES - 1:
                raise TerminalError(f"the gateway does not answer: {error}") from error
            time.sleep(3.0)
    raise AssertionError("unreachable")
