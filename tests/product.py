"""The whole product, started once per test session by its own `quickstart`, with the
packages of a product and none of the tests'.

Tests reach it only through public surfaces: connection.json, REST, HiveServer2.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.run_environment import product_python
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent
MANAGE = ROOT / "manage.py"
LOOK_SECONDS = 0.25


@dataclass
class Reply:
    status: int
    body: Any
    headers: dict[str, str]


class Api:
    """A REST client of 30 lines, so that the tests' client shares no code."""

    def __init__(self, base: str, token: str) -> None:
        self.base, self.token = base.rstrip("/") + "/api/v1", token

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        request = urllib.request.Request(
            self.base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                **headers,
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return self._reply(reply)
        except urllib.error.HTTPError as error:
            return self._reply(error)

    @staticmethod
    def _reply(reply: Any) -> Reply:
        raw = reply.read()
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw.decode(errors="replace")
        return Reply(reply.status, body, dict(reply.headers))

    def get(self, path: str) -> Any:
        reply = self.call("GET", path)
        assert reply.status == 200, (path, reply.status, reply.body)
        return reply.body

    def post(self, path: str, body: Any = None, *, status: int = 202) -> Any:
        reply = self.call("POST", path, body)
        assert reply.status == status, (path, reply.status, reply.body)
        return reply.body

    def wait_job(self, job_id: str) -> Any:
        def finished() -> Any:
            job = self.get(f"/jobs/{job_id}")
            return job if job["state"] in {"SUCCEEDED", "FAILED", "CANCELLED"} else None

        return wait_for(finished, f"job {job_id}", pause=LOOK_SECONDS)

    def table(self, name: str) -> Any:
        reply = self.call("GET", f"/tables?name={name}")
        if reply.status == 404:
            return None
        assert reply.status == 200, (name, reply.status, reply.body)
        items = reply.body.get("items", [reply.body])
        return items[0] if items else None

    def wait_live(self, name: str) -> Any:
        def is_live() -> Any:
            table = self.table(name)
            if table and table["status"] == "FAILED":
                raise AssertionError(table["status_reason"])
            return table if table and table["status"] == "LIVE" else None

        return wait_for(is_live, f"{name} to be LIVE", pause=LOOK_SECONDS)


@dataclass
class Product:
    home: Path
    connection: dict[str, Any]

    @property
    def api(self) -> Api:
        return Api(self.connection["web_url"], self.connection["token"])

    def reload(self) -> dict[str, Any]:
        self.connection = json.loads((self.home / "connection.json").read_text())
        return self.connection

    def source(self, database: str = "") -> psycopg.Connection[Any]:
        """The demo's server, in its shop or in another database."""
        demo = self.connection["demo_source"]
        return psycopg.connect(
            host=demo["host"],
            port=demo["port"],
            dbname=database or demo["database"],
            user=demo["username"],
            password=demo["password"],
            autocommit=True,
        )

    def register(self, name: str, **changes: Any) -> None:
        """A datasource over REST: by default a database of this name at the demo's
        server."""
        demo = self.connection["demo_source"]
        body = {
            **{k: demo[k] for k in ("kind", "host", "port", "username", "password")},
            "name": name,
            "database": name,
            "tls": "off",
            "options": {},
        }
        self.api.post("/datasources", {**body, **changes}, status=201)

    def discover(self, name: str) -> None:
        job = self.api.post(f"/datasources/{name}:discover")
        done = self.api.wait_job(job["id"])
        assert done["state"] == "SUCCEEDED", done

    def hive(self, username: str = "", password: str = "", **kwargs: Any) -> Any:
        from pyhive import hive

        return hive.connect(
            host=self.connection["gateway"]["host"],
            port=self.connection["gateway"]["port"],
            username=username or self.connection["username"],
            password=password or self.connection["password"],
            auth="CUSTOM",
            **kwargs,
        )


def manage(home: Path, *args: str, seconds: float = 600) -> str:
    """Run manage.py as a user would, against `home`; its output on success."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SLUICE_", "DJANGO_"))
    }
    for kept in ("SLUICE_PARTS_CACHE", "SLUICE_MAVEN_URL"):
        if kept in os.environ:
            environment[kept] = os.environ[kept]
    done = subprocess.run(
        [product_python(), str(MANAGE), *args],
        cwd=ROOT,
        env={**environment, "SLUICE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A running product with its demo source, stopped at the session's end."""
    home = tmp_path_factory.mktemp("product")
    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        running = Product(home=home, connection={})
        running.reload()
        yield running
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))
