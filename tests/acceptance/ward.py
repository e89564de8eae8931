"""Tables under care: small ones of a source that the product carries, their rows on
both sides, and the repairs that are asked for over REST."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import psycopg
from hudi import HudiTableBuilder

from ingest.pipelines.policies.policy import LEAST_LAG_SECONDS
from tests.acceptance.outsider import Outsider
from tests.processes import family, kill, wait_until_gone
from tests.product import Product
from tests.waiting import wait_for

SOURCE = "care"
ROWS = 200

CREATE = """
CREATE TABLE {name} (id int PRIMARY KEY, v text, updated_at timestamptz DEFAULT now());
CREATE INDEX ON {name} (updated_at);
INSERT INTO {name} SELECT g, 'load', now() - interval '1 day'
 FROM generate_series(1, {rows}) g
"""


@dataclass
class Patient:
    """One table: at the source, in the lake, and what was asked for it."""

    ward: Ward
    name: str
    jobs: dict[str, str] = field(default_factory=dict)

    @cached_property
    def id(self) -> int:
        return int(self.ward.api.table(f"lake.{SOURCE}.{self.name}")["id"])

    @property
    def path(self) -> Path:
        return self.ward.lake / SOURCE / self.name

    @property
    def outsider(self) -> Outsider:
        return Outsider(self.ward.lake, self.path, self.id)

    def change(self, value: str) -> None:
        self.ward.source.execute(
            f"UPDATE {self.name} SET v = %s, updated_at = clock_timestamp()"
            " WHERE id %% 7 = 1",
            [value],
        )

    def source_hash(self) -> str:
        rows = self.ward.source.execute(f"SELECT id, v FROM {self.name}")
        return hash_of(rows.fetchall())

    def lake_hash(self) -> str:
        """By a reader that shares no code with the product."""
        table = HudiTableBuilder.from_base_uri(str(self.path)).build()
        found = []
        for batch in table.read():
            columns = [
                batch.column(batch.schema.get_field_index(c)).to_pylist()
                for c in ("id", "v")
            ]
            found += zip(*columns, strict=True)
        return hash_of(found)

    def ask(self, verb: str, body: Any = None) -> Any:
        """The reply of a verb that queues a job, or previews one."""
        if verb == ":sync":
            # what was just changed is carried once it is as old as the least lag
            time.sleep(LEAST_LAG_SECONDS)
        reply = self.ward.api.call("POST", f"/tables/{self.id}{verb}", body)
        assert reply.status in {200, 202}, (self.name, verb, reply.status, reply.body)
        if reply.status == 202:
            self.jobs[verb] = reply.body["id"]
        return reply.body

    def done(self, verb: str) -> Any:
        job = self.ward.api.wait_job(self.jobs[verb])
        assert job["state"] == "SUCCEEDED", (self.name, verb, job)
        return job

    def sync(self) -> None:
        self.ask(":sync")
        self.done(":sync")

    def health(self) -> Any:
        return self.ward.api.get(f"/tables/{self.id}/health?look=now")

    def issue(self, code: str) -> Any:
        """What costs its points for that reason, once it does."""

        def found() -> Any:
            issues = self.health()["issues"]
            return next((issue for issue in issues if issue["code"] == code), None)

        return wait_for(found, f"{code} in the health of {self.name}")

    def keep_plans(self) -> None:
        """Each commit plans a compaction, and nothing executes it by itself."""
        far = datetime.now(UTC) + timedelta(hours=12)
        window = {
            "from": f"{far:%H:00}",
            "to": f"{far:%H:01}",
            "timezone": "UTC",
        }
        policy = {
            "compact_after": 1,
            "max_write_amplification": 100_000,
            "stuck_after_seconds": 60,
            "maintenance_window": window,
        }
        self.ward.patch(f"/tables/{self.id}/policy", policy)


@dataclass
class Ward:
    product: Product
    source: psycopg.Connection[Any]

    @property
    def api(self) -> Any:
        return self.product.api

    @property
    def lake(self) -> Path:
        return Path(self.product.connection["lake"])

    def admit(self, *names: str) -> list[Patient]:
        """Source tables of these names, loaded by the product."""
        for name in names:
            self.source.execute(CREATE.format(name=name, rows=ROWS))
        self.product.register(SOURCE)
        self.product.discover(SOURCE)
        self.patch(f"/datasources/{SOURCE}/policy", {"lag_seconds": LEAST_LAG_SECONDS})
        body = {
            "datasource": SOURCE,
            "include": [f"public.{name}" for name in names],
            "capture": "timestamp",
            "schedule": "manual",
            "approve": True,
        }
        self.api.post("/onboardings", body)
        for name in names:
            self.api.wait_live(f"lake.{SOURCE}.{name}")
        return [Patient(self, name) for name in names]

    def patch(self, path: str, change: Any) -> None:
        reply = self.api.call("PATCH", path, change)
        assert reply.status == 200, reply.body

    def driver(self) -> list[psutil.Process]:
        """The process of all jobs and its JVM. Looked for before the moment at which
        they are to die: that takes longer than some moments last."""

        def found() -> Any:
            processes = self._driver()
            return processes if len(processes) > 1 else None

        return list(wait_for(found, "a driver to kill"))

    def kill_driver(self, known: list[psutil.Process]) -> None:
        """At once, and then whatever has taken their place since they were found."""
        kill(known)
        newer = self._driver()
        kill(newer)
        wait_until_gone([*known, *newer])

    def _driver(self) -> list[psutil.Process]:
        return family(self.product.reload()["pids"]["driver"])


def hash_of(rows: Any) -> str:
    told = "\n".join(repr(tuple(row)) for row in sorted(rows))
    return f"{len(rows)} rows {hashlib.sha256(told.encode()).hexdigest()}"
