"""What a catalog of a million tables costs, beside one of ten thousand in the same run.
Look-ups take turns A B B A. Run alone: `python -m tests.bench.catalog_bench FILE`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench import catalog_world as world

SMALL, LARGE = 10_000, int(os.environ.get("SLUICE_BENCH_TABLES", "1000000"))
LOOK_UPS = int(os.environ.get("SLUICE_BENCH_LOOKUPS", "500"))
REQUESTS, TURNS, ROUNDS = 200, 4, 15
ONBOARDED = 2_000
SEARCHES = {
    "prefix": "invoice",
    "middle": "voice_mar",
    "fuzzy": "warehuose",
    "column": "amount",
    "comment": "kept for 77",
    "place": "db0001.ord",
    "nothing": "zzzqqq",
}
PATTERNS = {"all": "%", "beginning": "a%", "middle": "%x%", "word": "%ship%"}
PAGES = {
    "home": "/",
    "tables": "/tables?q=invoice",
    "tables_deep": "/tables?page=100",
    "source": "/sources/src1",
    "table": "/tables/{table}",
    "jobs": "/jobs",
}


@dataclass(frozen=True)
class Catalog:
    """One of the two catalogs."""

    name: str
    tables: int
    url: str

    def use(self) -> None:
        """Let Django of this process speak to this catalog."""
        from django.db import connection

        connection.close()
        connection.settings_dict["NAME"] = self.name

    def some_id(self) -> int:
        return random.randint(1, self.tables)


def run() -> dict[str, float]:
    """Measure in a throw-away home and return the figures."""
    random.seed(7)
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        with two_catalogs(home) as (small, large, figures):
            figures |= measure_look_ups(small, large)
            figures |= measure_requests(home, small, large)
            large.use()
            for who in (world.ADMIN, world.RESTRICTED):
                figures |= measure_lists(who)
                figures |= measure_pages(who, large)
            figures |= measure_onboarding()
        return {name: round(value, 3) for name, value in figures.items()}
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def two_catalogs(home: Path) -> Iterator[tuple[Catalog, Catalog, dict[str, float]]]:
    """Both filled, on a server of their own; and what filling took."""
    from config.embedded import EmbeddedPostgres
    from config.supervisor.home import make_keys

    make_keys(home)
    server = EmbeddedPostgres(home, "metadata", durable=False)
    address = server.start()
    figures = {}
    try:
        made = []
        for name, tables in (("small", SMALL), ("large", LARGE)):
            server.ensure_database(name)
            catalog = Catalog(name, tables, address.url(name))
            began = time.perf_counter()
            _prepare(home, catalog)
            figures[f"{name}_filled_in_seconds"] = time.perf_counter() - began
            made.append(catalog)
        yield made[0], made[1], figures
    finally:
        with contextlib.suppress(Exception):
            from django.db import connections

            connections.close_all()
        server.destroy()


def _prepare(home: Path, catalog: Catalog) -> None:
    os.environ |= {
        "SLUICE_HOME": str(home),
        "SLUICE_DATABASE_URL": catalog.url,
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command

    settings.ALLOWED_HOSTS = ["*"]
    logging.disable(logging.INFO)  # a line per request would go to stdout
    catalog.use()
    call_command("migrate", verbosity=0)
    User.objects.create_superuser(world.ADMIN)
    User.objects.create_user(world.RESTRICTED)
    world.fill(catalog.url, catalog.tables)


def measure_look_ups(small: Catalog, large: Catalog) -> dict[str, float]:
    """The selector in this process, by id and by name, catalogs taking turns."""
    from catalog.selectors import table_at, table_for

    root = _principal(world.ADMIN)
    times: dict[str, list[float]] = {"small": [], "large": []}
    by_name: list[float] = []
    processor = 0.0
    asked = {one.name: [one.some_id() for _ in range(2000)] for one in (small, large)}
    for catalog in [small, large]:  # warm beside warm, or the disk is measured
        catalog.use()
        for table in asked[catalog.name]:
            table_for(root, table)
    for catalog in [small, large, large, small] * TURNS:
        catalog.use()
        table_for(root, 1)
        before = time.process_time()
        times[catalog.name] += _timed(
            lambda: table_for(root, random.choice(asked[catalog.name])),  # noqa: B023
            LOOK_UPS,
        )
        processor += time.process_time() - before
    large.use()
    places = [_place(table_for(root, large.some_id())) for _ in range(LOOK_UPS)]
    by_name = _timed(lambda: table_at(root, *random.choice(places)), LOOK_UPS)
    rates = {name: len(found) / sum(found) for name, found in times.items()}
    return {
        "look_up_id_per_second_10k": rates["small"],
        "look_up_id_per_second_1m": rates["large"],
        "look_up_ratio": statistics.median(times["small"])
        / statistics.median(times["large"]),
        "look_up_id_p95_ms": _p95(times["large"]),
        "look_up_processor_ms": 1000 * processor / (len(times["small"]) * 2),
        "look_up_name_per_second_1m": len(by_name) / sum(by_name),
        "look_up_name_p95_ms": _p95(by_name),
    }


def measure_requests(home: Path, small: Catalog, large: Catalog) -> dict[str, float]:
    """`GET /tables/{id}` at one web worker as the product runs it, keep-alive."""
    times: dict[str, list[float]] = {"small": [], "large": []}
    with _web(home, small) as (a, _), _web(home, large) as (b, processor):
        before = processor()
        for name, ask in [("small", a), ("large", b), ("large", b), ("small", a)] * 2:
            catalog = small if name == "small" else large
            for _ in range(20):
                ask(catalog.some_id())
            times[name] += _timed(lambda: ask(catalog.some_id()), REQUESTS)  # noqa: B023
        used = processor() - before
    return {
        "http_per_second_10k": len(times["small"]) / sum(times["small"]),
        "http_per_second_1m": len(times["large"]) / sum(times["large"]),
        "http_ratio": statistics.median(times["small"])
        / statistics.median(times["large"]),
        "http_p95_ms": _p95(times["large"]),
        "http_processor_ms": 1000 * used / (len(times["large"]) * 1.1),
    }


@contextlib.contextmanager
def _web(
    home: Path, catalog: Catalog
) -> Iterator[tuple[Callable[[int], None], Callable[[], float]]]:
    """A web process: how to ask it for a table by id, and what it has used so far."""
    from django.contrib.auth.models import User

    from catalog.access.tokens import create_token

    catalog.use()
    owner = User.objects.get(username=world.ADMIN)
    token = create_token(owner, name="bench", expires_in_days=1, by="bench").text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "gunicorn", "config.wsgi:application"),
        *("--bind", f"127.0.0.1:{port}", "--worker-class", "gthread", "--workers", "1"),
        *("--threads", "12", "--keep-alive", "15", "--no-control-socket"),
    ]
    settings = {"SLUICE_DATABASE_URL": catalog.url, "SLUICE_HOME": str(home)}
    log = (home / "logs" / f"web-{catalog.name}.log").open("wb")
    process = subprocess.Popen(
        command, env=os.environ | settings, stdout=log, stderr=log
    )
    try:
        _wait_for(port)
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {token}"}

        def ask(table: int) -> None:
            link.request("GET", f"/api/v1/tables/{table}", headers=headers)
            answer = link.getresponse()
            answer.read()
            assert answer.status == 200, answer.status

        yield ask, lambda: _processor(process.pid)
        link.close()
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def _processor(pid: int) -> float:
    """Processor seconds of a process and its children."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in family)


def _wait_for(port: int) -> None:
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=1),
        ):
            return
        time.sleep(0.2)
    raise TimeoutError("the web process did not start")


def measure_lists(who: str) -> dict[str, float]:
    """Search, keyset pages and GetTables' first page."""
    from catalog.selectors import (
        TableFilter,
        keyset_page,
        lake_tables_matching,
        search_tables,
        tables_by_ids,
        tables_for,
    )

    principal = _principal(who)
    figures = {}
    for name, q in SEARCHES.items():
        times = _timed(
            lambda: search_tables(principal, TableFilter(q=q), limit=50),  # noqa: B023
            ROUNDS,
        )
        figures[f"{who}_search_{name}_p95_ms"] = _p95(times)
    for name, pattern in PATTERNS.items():
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

    client = Client()
    client.force_login(User.objects.get(username=who))
    figures = {}
    for name, path in PAGES.items():
        url = path.format(table=large.tables // world.GRANTS)
        client.get(url)
        times = _timed(lambda: client.get(url), 5)  # noqa: B023
        figures[f"{who}_page_{name}_ms"] = 1000 * statistics.median(times)
    return figures


def measure_onboarding() -> dict[str, float]:
    """ONBOARDED tables in one request: planned, then approved; rolled back."""
    from django.db import transaction

    from ingest import onboarding, runs
    from ingest.requests import parse_request
    from tests.integration.ingest.world import make_source, make_tables

    rung: Any = lambda *_, **__: None  # noqa: E731  no broker here
    runs.ring = rung
    body = {"datasource": "fresh", "include": ["public.*"], "capture": "timestamp"}
    plan = parse_request({**body, "dry_run": True})
    approve = parse_request({**body, "approve": True})
    with transaction.atomic():
        make_tables(make_source("fresh"), [f"t{n}" for n in range(ONBOARDED)])
        (planned,) = _timed(lambda: onboarding.plan_onboarding(plan), 1)
        (approved,) = _timed(
            lambda: onboarding.start_onboarding(approve, actor="root"), 1
        )
        transaction.set_rollback(True)
    return {
        "onboarding_2000_dry_run_seconds": planned,
        "onboarding_2000_approved_seconds": approved,
    }


def _principal(who: str) -> Any:
    from catalog.access.policy import Principal

    return Principal(who, is_admin=who == world.ADMIN)


def _place(table: Any) -> tuple[str, str, str]:
    database = table.database
    return database.datasource.name, database.name, table.name


def _timed(work: Callable[[], object], count: int) -> list[float]:
    """Seconds of each of `count` runs."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def _p95(times: list[float]) -> float:
    return 1000 * sorted(times)[int(len(times) * 0.95)]


def main(target: str) -> int:
    """Write the figures as JSON, with the machine's load around them."""
    before = os.getloadavg()[0]
    figures = run() | {"load_before": before, "load_after": os.getloadavg()[0]}
    Path(target).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
