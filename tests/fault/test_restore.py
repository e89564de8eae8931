"""The metadata database is lost for good and comes back from a real dump, by the very
commands of docs/backup.md, on servers of its own.

The short one of the same behaviour is `tests/integration/ingest/test_adoption.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config.embedded.postgres import PROGRAMS, EmbeddedPostgres, _wheel
from tests.product import ROOT, Product
from tests.waiting import wait_for

PAGE = (ROOT / "docs" / "backup.md").read_text()
CREATE = """
CREATE TABLE orders (id int PRIMARY KEY, v text, updated_at timestamptz DEFAULT now());
CREATE TABLE calm (id int PRIMARY KEY, v text, updated_at timestamptz DEFAULT now());
INSERT INTO orders SELECT g, 'load', now() - interval '1 day' FROM generate_series(1, 500) g;
INSERT INTO calm SELECT * FROM orders;
ANALYZE
"""
LOGGED = """
CREATE TABLE logged (id int PRIMARY KEY, v text);
INSERT INTO logged SELECT g, 'load' FROM generate_series(1, 500) g;
ANALYZE logged
"""
CHANGE = "UPDATE orders SET v = %s, updated_at = clock_timestamp() WHERE id %% 3 = 0"


def commands(name: str) -> str:
    found = re.search(rf"<!-- drill: {name} -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"docs/backup.md has no commands for {name}"
    return found[1]


class Drill:
    """A stack of its own beside a PostgreSQL that nobody started for it."""

    def __init__(self, root: Path) -> None:
        self.home, self.backup = root / "home", root / "backup"
        self.backup.mkdir()
        self.server = EmbeddedPostgres(root / "server", "own", durable=False)
        self.address = self.server.start()
        for name in ("sluice", "shop"):
            self.server.ensure_database(name)
        self.product = Product(self.home, {})

    def close(self) -> None:
        try:
            self.run("stop")
        finally:
            self.server.destroy()

    def run(self, name: str) -> str:
        """The output of commands of the page."""
        return self.shell(commands(name))

    def shell(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        outer = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("SLUICE_", "DJANGO_")) or k == "SLUICE_PARTS_CACHE"
        }
        programs = (str(Path(sys.executable).parent), str(_wheel() / PROGRAMS))
        at = self.address
        return {
            **outer,
            "PATH": os.pathsep.join([*programs, outer.get("PATH", "")]),
            "SLUICE_HOME": str(self.home),
            "SLUICE_DATABASE_URL": at.url("sluice"),
            "BACKUP": str(self.backup),
            "PGHOST": at.host,
            "PGPORT": str(at.port),
            "PGUSER": at.username,
            "PGPASSWORD": at.password,
            "PGDATABASE": "sluice",
        }

    def start(self) -> None:
        start, _ = commands("start").splitlines()[:2]
        self.shell(start)
        self.product.reload()

    def onboard(self) -> None:
        at = self.address
        self.product.api.post(
            "/datasources",
            {
                "name": "shop", "kind": "postgresql", "host": at.host, "port": at.port,
                "database": "shop", "username": at.username, "password": at.password,
                "tls": "off", "options": {},
            },
            status=201,
        )  # fmt: skip
        self.product.discover("shop")
        self.product.api.post(
            "/onboardings",
            {"datasource": "shop", "include": ["public.*"], "capture": "timestamp",
             "approve": True},
        )  # fmt: skip
        for name in ("orders", "calm"):
            self.product.api.wait_live(f"lake.shop.{name}")

    def onboard_log(self) -> None:
        """A third table, which follows its source's log."""
        self.at_source(LOGGED)
        self.product.discover("shop")
        asked = {"datasource": "shop", "include": ["public.logged"], "capture": "log"}
        self.product.api.post("/onboardings", {**asked, "approve": True})
        self.product.api.wait_live("lake.shop.logged")

    def at_source(self, *statements: str) -> None:
        with psycopg.connect(self.address.url("shop"), autocommit=True) as source:
            for statement in statements:
                source.execute(statement)

    def wait_equal(self) -> None:
        """Until the lake has the rows of `logged` that the source has."""
        with psycopg.connect(self.address.url("shop")) as source:
            wanted = source.execute("SELECT id, v FROM logged ORDER BY id").fetchall()

        def is_equal() -> bool:
            with self.product.hive() as lake, lake.cursor() as cursor:
                cursor.execute("SELECT id, v FROM shop.logged ORDER BY id")
                return bool([tuple(row) for row in cursor.fetchall()] == wanted)

        wait_for(is_equal, "the lake to be as the source", pause=1)

    def sync(self, value: str) -> str:
        """The instant of the commit that brought a change."""
        before = self.instant()
        with psycopg.connect(self.address.url("shop"), autocommit=True) as source:
            source.execute(CHANGE, [value])

        def committed() -> str:
            """Rows are read once they are older than the lag."""
            api = self.product.api
            table = api.table("lake.shop.orders")
            job = api.wait_job(api.post(f"/tables/{table['id']}:sync")["id"])
            assert job["state"] == "SUCCEEDED", job
            now = self.instant()
            return now if now != before else ""

        return str(wait_for(committed, "a commit of what changed", pause=1))

    def instant(self) -> str:
        table = self.product.api.table("lake.shop.orders")
        return str(table["last_commit"]["instant"])


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    made = Drill(tmp_path)
    try:
        with psycopg.connect(made.address.url("shop"), autocommit=True) as source:
            source.execute(CREATE)
        yield made
    finally:
        made.close()


@pytest.mark.long
def test_a_lost_database_comes_back_by_the_commands_of_the_page(drill: Drill) -> None:
    drill.start()
    drill.onboard()
    drill.sync("before the backup")
    assert int(drill.run("backup").split()[-1]) > 20
    newest = [drill.sync(f"after it, {n}") for n in range(2)][-1]
    drill.run("stop")
    drill.shell("dropdb sluice")

    drill.run("restore")
    told = drill.run("adopt")
    assert "orders: ahead" in told
    assert "orders: adopted (ahead)" in told
    assert told.splitlines()[-1] == "Adopted: 2 tables, 1 agrees, 1 ahead."
    drill.start()
    assert drill.instant() == newest
    assert drill.product.api.table("lake.shop.orders")["status"] == "LIVE"
    drill.sync("after the restore")
    verify = commands("start").splitlines()[1]
    for name in ("orders", "calm"):
        told = drill.shell(verify.replace("shop.orders", f"shop.{name}"))
        assert "Equal: 500 rows on both sides" in told


@pytest.mark.long
def test_without_a_backup_tables_come_back_from_the_lake(drill: Drill) -> None:
    drill.start()
    drill.onboard()
    drill.onboard_log()
    drill.at_source("UPDATE logged SET v = 'before' WHERE id <= 100")
    drill.wait_equal()
    newest = drill.sync("before the loss")
    names = [f"lake.shop.{name}" for name in ("orders", "calm", "logged")]
    before = {name: drill.product.api.table(name)["id"] for name in names}
    drill.run("stop")
    drill.shell("dropdb sluice; createdb sluice")
    drill.at_source(
        "UPDATE logged SET v = 'meanwhile' WHERE id BETWEEN 50 AND 150",
        "DELETE FROM logged WHERE id > 450",
        "INSERT INTO logged VALUES (1000, 'new')",
    )

    told = drill.run("rebuild")
    assert "3 to rebuild" in told
    assert "3 tables, 3 rebuilt" in told
    assert "shop: needs its password again" in told
    drill.start()
    api = drill.product.api
    assert before == {name: api.table(name)["id"] for name in names}
    assert drill.instant() == newest
    change = {"password": drill.address.password}
    assert api.call("PATCH", "/datasources/shop", change).status == 200
    for name in names:
        api.wait_live(name)
    drill.sync("after the loss")
    drill.at_source("UPDATE logged SET v = 'after' WHERE id <= 10")
    drill.wait_equal()
    kinds = {job["kind"] for job in api.get("/jobs?page_size=100")["items"]}
    assert not kinds & {"snapshot", "resync"}
    verify = commands("start").splitlines()[1]
    assert "Equal: 500 rows on both sides" in drill.shell(verify)
