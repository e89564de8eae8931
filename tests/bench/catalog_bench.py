"""What a catalog of a million tables costs, beside one of ten thousand in the same run.

Look-ups take turns A B B A. Run alone: `python -m tests.bench.catalog_bench FILE [PART…]`,
with SLUICE_BENCH_HOME=DIR to keep the filled catalogs for the next run.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench import catalog_world as world
from tests.bench.catalog_server import Catalog, bench_home, catalogs, servers_used, web

SMALL, LARGE = 10_000, int(os.environ.get("SLUICE_BENCH_TABLES", "1000000"))
LOOK_UPS = int(os.environ.get("SLUICE_BENCH_LOOKUPS", "500"))
REQUESTS, TURNS, ROUNDS = 300, 4, 15
ONBOARDED = 2_000
SEARCHES = {
    "prefix": "invoice",
    "middle": "voice_mar",
    "fuzzy": "warehuose",
    "column": "amount",
    "comment": "kept for 77",
    "column_comment": "meter of its listing",
    "fuzzy_comment": "listnig",
    "place": "db0001.ord",
    "nothing": "zzzqqq",
}
PATTERNS = {"all": "%", "beginning": "a%", "middle": "%x%", "word": "%ship%"}
PAGES = {
    "home": "/",
    "tables": "/tables?q=invoice",
    "tables_deep": "/tables?after={deep}",
    "source": "/sources/src1",
    "table": "/tables/{table}",
    "jobs": "/jobs",
}


def run(parts: list[str]) -> dict[str, float]:
    """Measure these parts, or all, and return the figures."""
    random.seed(7)
    figures: dict[str, float] = {}
    with (
        bench_home() as home,
        catalogs(home, SMALL, LARGE) as ((small, large), seconds),
    ):
        figures["filled_in_seconds"] = sum(seconds)
        if "look_ups" in parts:
            figures |= measure_look_ups(small, large)
        if "requests" in parts:
            figures |= measure_requests(home, small, large)
        large.use()
        for who in (world.ADMIN, world.RESTRICTED):
            if "lists" in parts:
                figures |= measure_lists(who)
            if "pages" in parts:
                figures |= measure_pages(who, large)
        if "onboarding" in parts:
            figures |= measure_onboarding()
    return {name: round(value, 3) for name, value in figures.items()}


PARTS = ["look_ups", "requests", "lists", "pages", "onboarding"]


def measure_look_ups(small: Catalog, large: Catalog) -> dict[str, float]:
    """The selector in this process, by id and by name, catalogs taking turns."""
    from catalog.selectors.facts import facts_at, facts_for

    root, ann = _principal(world.ADMIN), _principal(world.RESTRICTED)
    asked = {
        one: random.choices(range(1, one.tables + 1), k=2000) for one in (small, large)
    }
    for catalog in (small, large):  # warm beside warm, or the disk is measured
        catalog.use()
        for table in asked[catalog]:
            facts_for(root, table)
    times: dict[Catalog, list[float]] = {small: [], large: []}
    used, served = 0.0, 0.0
    for catalog in [small, large, large, small] * TURNS:
        catalog.use()
        _timed(lambda: facts_for(root, 1), 20)
        before = time.process_time(), servers_used(catalog)
        ids = asked[catalog]
        times[catalog] += _timed(lambda: facts_for(root, random.choice(ids)), LOOK_UPS)  # noqa: B023
        used += time.process_time() - before[0]
        served += servers_used(catalog) - before[1]
    large.use()
    granted = [n * (LARGE // world.GRANTS) for n in range(1, world.GRANTS)]
    found = [facts_for(root, random.choice(granted)) for _ in range(LOOK_UPS)]
    places = [(one.datasource, one.database, one.name) for one in found]
    by_name = _timed(lambda: facts_at(root, *random.choice(places)), LOOK_UPS)
    by_right = _timed(lambda: facts_at(ann, *random.choice(places)), LOOK_UPS)
    count = len(times[small]) * 2
    return {
        "look_up_id_per_second_10k": _rate(times[small]),
        "look_up_id_per_second_1m": _rate(times[large]),
        "look_up_ratio": statistics.median(times[small])
        / statistics.median(times[large]),
        "look_up_id_two_callers_per_second_1m": _two_callers(root, asked[large]),
        "look_up_id_p95_ms": _p95(times[large]),
        "look_up_client_processor_ms": 1000 * used / count,
        "look_up_server_processor_ms": 1000 * served / count,
        "look_up_name_per_second_1m": _rate(by_name),
        "look_up_name_with_grants_per_second_1m": _rate(by_right),
    }


def measure_requests(home: Path, small: Catalog, large: Catalog) -> dict[str, float]:
    """`GET /tables/{id}` at one web worker as the product runs it, keep-alive."""
    times: dict[Catalog, list[float]] = {small: [], large: []}
    with (
        web(home, small, world.ADMIN) as a,
        web(home, large, world.ADMIN) as b,
    ):
        servers = {small: a, large: b}
        asked = {
            one: random.choices(range(1, one.tables + 1), k=500) for one in servers
        }
        for catalog, server in servers.items():
            for table in asked[catalog]:
                server.get(f"/api/v1/tables/{table}")
        before = b.used()
        for catalog in [small, large, large, small] * TURNS:
            server, ids = servers[catalog], asked[catalog]
            times[catalog] += _timed(
                lambda: server.get(f"/api/v1/tables/{random.choice(ids)}"),  # noqa: B023
                REQUESTS,
            )
        after = b.used()
    count = len(times[large])
    return {
        "http_per_second_10k": _rate(times[small]),
        "http_per_second_1m": _rate(times[large]),
        "http_ratio": statistics.median(times[small]) / statistics.median(times[large]),
        "http_p95_ms": _p95(times[large]),
        "http_worker_processor_ms": 1000 * (after[0] - before[0]) / count,
        "http_server_processor_ms": 1000 * (after[1] - before[1]) / count,
    }


def measure_lists(who: str) -> dict[str, float]:
    """Search, keyset pages and GetTables' first page."""
    from django.db import connection

    from catalog.selectors.lake import lake_tables_matching
    from catalog.selectors.lookups import tables_by_ids
    from catalog.selectors.paging import keyset_page
    from catalog.selectors.search import search_tables
    from catalog.selectors.tables import TableFilter, tables_for

    principal = _principal(who)
    figures = {}
    for name, q in SEARCHES.items():
        times = _timed(
            lambda: search_tables(principal, TableFilter(q=q), limit=50),  # noqa: B023
            ROUNDS,
        )
        figures[f"{who}_search_{name}_p95_ms"] = _p95(times)
    for name, pattern in PATTERNS.items():
        connection.close()  # nothing is planned or prepared on a new connection
        cold = _timed(lambda: lake_tables_matching(principal, None, pattern, 1000), 1)  # noqa: B023
        figures[f"{who}_get_tables_{name}_cold_ms"] = 1000 * cold[0]
        times = _timed(
            lambda: lake_tables_matching(principal, None, pattern, 1000),  # noqa: B023
            ROUNDS,
        )
        figures[f"{who}_get_tables_{name}_p95_ms"] = _p95(times)
    token: str | None = None

    def turn() -> None:
        nonlocal token
        page = keyset_page(
            tables_for(principal),
            order=("name", "id"),
            size=50,
            token=token,
            load=tables_by_ids,
        )
        token = page.next_page_token

    figures[f"{who}_list_p95_ms"] = _p95(_timed(turn, ROUNDS))
    return figures


def measure_pages(who: str, large: Catalog) -> dict[str, float]:
    """Server time of pages, without a socket."""
    from django.contrib.auth.models import User
    from django.test import Client

    from catalog.selectors.paging import key_token

    deep = key_token(["order", 0], "catalog.Table:name,id")
    client = Client()
    client.force_login(User.objects.get(username=who))
    figures = {}
    for name, path in PAGES.items():
        url = path.format(table=large.tables // world.GRANTS, deep=deep)
        client.get(url)
        times = _timed(lambda: client.get(url), 5)  # noqa: B023
        figures[f"{who}_page_{name}_ms"] = 1000 * statistics.median(times)
    return figures


def measure_onboarding() -> dict[str, float]:
    """ONBOARDED tables in one request: planned, then approved; rolled back."""
    from django.db import transaction

    from catalog.access.policy import Principal
    from ingest.jobs import queue
    from ingest.pipelines import onboarding
    from ingest.pipelines.drafting import plan_onboarding
    from ingest.pipelines.requests import parse_request
    from tests.integration.ingest.world import make_source, make_tables

    root = Principal("root", is_admin=True)
    no_broker: Any = lambda *_, **__: None  # noqa: E731
    vars(queue)["notify_workers"] = no_broker
    body = {"datasource": "fresh", "include": ["public.*"], "capture": "timestamp"}
    plan = parse_request({**body, "dry_run": True})
    approve = parse_request({**body, "approve": True})
    with transaction.atomic():
        make_tables(make_source("fresh"), [f"t{n}" for n in range(ONBOARDED)])
        (planned,) = _timed(lambda: plan_onboarding(plan, principal=root), 1)
        (approved,) = _timed(
            lambda: onboarding.start_onboarding(approve, principal=root), 1
        )
        transaction.set_rollback(True)
    return {
        "onboarding_2000_dry_run_seconds": planned,
        "onboarding_2000_approved_seconds": approved,
    }


def _two_callers(root: Any, ids: list[int]) -> float:
    """Of one process whose threads, as a web worker's, do not wait for each other."""
    from django.db import connections

    from catalog.selectors.facts import facts_for

    def ask() -> None:
        _timed(lambda: facts_for(root, random.choice(ids)), LOOK_UPS)
        connections.close_all()

    with ThreadPoolExecutor(2) as callers:
        began = time.perf_counter()
        for each in [callers.submit(ask), callers.submit(ask)]:
            each.result()
        return 2 * LOOK_UPS / (time.perf_counter() - began)


def _principal(who: str) -> Any:
    from catalog.access.policy import Principal

    return Principal(who, is_admin=who == world.ADMIN)


def _timed(work: Callable[[], object], count: int) -> list[float]:
    """Seconds of each of `count` runs."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def _rate(times: list[float]) -> float:
    return len(times) / sum(times)


def _p95(times: list[float]) -> float:
    return 1000 * sorted(times)[int(len(times) * 0.95)]


def main(target: str, parts: list[str]) -> int:
    """Write the figures as JSON, with the machine's load around them."""
    before = os.getloadavg()[0]
    figures = run(parts or PARTS)
    figures |= {"load_before": before, "load_after": os.getloadavg()[0]}
    Path(target).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
