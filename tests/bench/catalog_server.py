"""Two filled catalogs on a server of their own, and web processes before them.

Filling a million tables takes minutes. SLUICE_BENCH_HOME keeps them there for the next
run; catalogs of another size or made by other SQL get other names.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from tests.bench import catalog_world as world


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


@contextlib.contextmanager
def bench_home() -> Iterator[Path]:
    """SLUICE_BENCH_HOME, which stays; without it a throw-away directory."""
    kept = os.environ.get("SLUICE_BENCH_HOME")
    home = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    home.mkdir(parents=True, exist_ok=True)
    try:
        yield home
    finally:
        if not kept:
            shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def catalogs(home: Path, *sizes: int) -> Iterator[tuple[list[Catalog], list[float]]]:
    """Filled catalogs of these sizes; and how many seconds each took to fill."""
    from config.embedded import EmbeddedPostgres
    from config.supervisor.home import make_keys

    make_keys(home)
    server = EmbeddedPostgres(home, "metadata", durable=False)
    was_there = server.is_running()
    address = server.start()
    made, seconds = [], []
    try:
        for tables in sizes:
            name = f"c{tables}_{world.DIGEST}"
            catalog = Catalog(name, tables, address.url(name))
            server.ensure_database(name)
            began = time.perf_counter()
            _prepare(home, catalog)
            made.append(catalog)
            seconds.append(time.perf_counter() - began)
        yield made, seconds
    finally:
        with contextlib.suppress(Exception):
            from django.db import connections

            connections.close_all()
        if not os.environ.get("SLUICE_BENCH_HOME"):
            server.destroy()
        elif not was_there:
            server.stop()


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
    if User.objects.filter(username=world.RESTRICTED).exists():
        return
    world.fill(catalog.url, catalog.tables)
    User.objects.create_superuser(world.ADMIN)
    User.objects.create_user(world.RESTRICTED)


@dataclass(frozen=True)
class Web:
    """A web process with one worker, as the product runs it, and a kept connection.

    used  processor seconds so far: of the process, and of its database servers
    """

    get: Callable[[str], bytes]
    used: Callable[[], tuple[float, float]]


@contextlib.contextmanager
def web(home: Path, catalog: Catalog, who: str) -> Iterator[Web]:
    """It listens on a free port; `get` asks as `who` and wants 200."""
    token = _token(catalog, who)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "manage.py", "web", "--bind", f"127.0.0.1:{port}"),
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

        def get(path: str) -> bytes:
            link.request("GET", path, headers=headers)
            answer = link.getresponse()
            text = answer.read()
            assert answer.status == 200, answer.status
            return text

        def used() -> tuple[float, float]:
            return _family_used(process.pid), servers_used(catalog)

        yield Web(get, used)
        link.close()
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def _token(catalog: Catalog, who: str) -> str:
    from django.contrib.auth.models import User

    from catalog.access.tokens import create_token

    catalog.use()
    owner = User.objects.get(username=who)
    return create_token(owner, name="bench", expires_in_days=1, by="bench").text


def _family_used(pid: int) -> float:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in family)


def servers_used(catalog: Catalog) -> float:
    """Processor seconds of the database's processes that serve this catalog now."""
    with psycopg.connect(catalog.url) as link:
        found = link.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        ).fetchall()
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for (pid,) in found)


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


if __name__ == "__main__":  # only fill: for looking at plans by hand
    with (
        bench_home() as place,
        catalogs(place, *map(int, sys.argv[1:])) as (all_, took),
    ):
        sys.stdout.write(f"{[one.url for one in all_]} {took}\n")
        if os.environ.get("SLUICE_BENCH_STAY"):
            time.sleep(float(os.environ["SLUICE_BENCH_STAY"]))
