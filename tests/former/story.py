"""What happens to a product before it is recorded: every kind of row, job and file.

Asks over REST and SQL only, so that it can be told to any release.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psycopg

from tests.product import Api
from tests.waiting import wait_for

READER, READER_PASSWORD = "former_reader", "reader of the former release"
PEOPLE = {"ann": "ann's own long password", "ben": "ben's own long password"}
TABLES = ("orders", "clicks", "countries", "invoices", "stock", "customers", "fragile")
# It has no key and would be followed: its plan waits for a choice.
UNDECIDED = "visits"
# Its plan was made and is not approved yet.
PLANNED = "notes"
# Its verification is under way when the product stops.
INTERRUPTED = "clicks"
# What is changed is synced once it is as old as the least lag of a source.
LAG_SECONDS = 1
NIGHTLY = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}

SOURCE = """
CREATE TABLE orders (id int PRIMARY KEY, small smallint, big bigint,
  amount numeric(12,2), ratio double precision, weight real, paid boolean, day date,
  at time, made timestamp, raw bytea, tags text[], doc jsonb, uid uuid, note text,
  updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON orders (updated_at);
INSERT INTO orders SELECT g, g, g * 10000000000, g * 1.01, g / 7.0, g / 8.0, g % 2 = 0,
  '2024-02-28'::date + g, '03:04:05'::time + g * interval '1 s',
  '2024-01-02 03:04:05.000006'::timestamp + g * interval '1 day',
  decode(lpad(to_hex(g), 4, '0'), 'hex'), ARRAY['a', NULL, g::text],
  jsonb_build_object('n', g), md5(g::text)::uuid,
  CASE WHEN g % 3 > 0 THEN 'Zoë ' || g END, now() - interval '1 day'
  FROM generate_series(1, 60) g;
CREATE TABLE clicks (page text, seconds int, at timestamptz NOT NULL);
INSERT INTO clicks SELECT '/' || g % 5, g, now() - interval '1 day'
  FROM generate_series(1, 40) g;
CREATE TABLE visits AS SELECT * FROM clicks;
CREATE TABLE notes (id int PRIMARY KEY, body text,
  updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO notes SELECT g, 'note ' || g, now() - interval '1 day'
  FROM generate_series(1, 10) g;
CREATE TABLE countries (code text PRIMARY KEY, name text);
INSERT INTO countries VALUES ('DE', 'Deutschland'), ('FR', 'France'), ('IS', 'Ísland');
CREATE TABLE invoices (id bigint PRIMARY KEY, total numeric(10,2),
  updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON invoices (updated_at);
INSERT INTO invoices SELECT g, g * 2.5, now() - interval '1 day'
  FROM generate_series(1, 30) g;
CREATE TABLE stock (id int PRIMARY KEY, shelf text NOT NULL, pieces int, remark text,
  updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON stock (updated_at);
INSERT INTO stock SELECT g, 'shelf ' || g % 2, g, 'first', now() - interval '1 day'
  FROM generate_series(1, 40) g;
CREATE TABLE customers (id int PRIMARY KEY, name text,
  updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON customers (updated_at);
INSERT INTO customers SELECT g, 'customer ' || g, now() - interval '1 day'
  FROM generate_series(1, 20) g;
CREATE TABLE fragile (id int PRIMARY KEY, v text,
  updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON fragile (updated_at);
INSERT INTO fragile VALUES (1, 'one', now() - interval '1 day');
ANALYZE;
"""


@dataclass
class Story:
    api: Api
    source: psycopg.Connection[Any]
    host: str
    port: int
    hook: str

    def tell(self) -> None:
        self.source.execute(SOURCE)
        self.connect_source()
        self.make_people()
        self.onboard()
        self.sync_and_compact()
        self.change_schema()
        self.cancel_job()
        self.fail_table()
        self.pause()
        self.api.post("/alert-targets/ops:test", {})
        wait_for(self.is_at_rest, "every job to end, and every look at a table")

    def id_of(self, name: str) -> int:
        return int(self.api.table(f"lake.shop.{name}")["id"])

    def run(self, verb: str, body: Any = None) -> Any:
        """The job that the request queued, once it has succeeded."""
        job = self.api.wait_job(self.api.post(verb, body)["id"])
        assert job["state"] == "SUCCEEDED", job
        return job

    def patch(self, path: str, body: Any) -> None:
        reply = self.api.call("PATCH", path, body)
        assert reply.status == 200, (path, reply.body)

    def connect_source(self) -> None:
        body = {
            "name": "shop",
            "kind": "postgresql",
            "host": self.host,
            "port": self.port,
            "database": "shop",
            "username": READER,
            "password": READER_PASSWORD,
            "tls": "off",
            "options": {"max_parallel_reads": 2},
        }
        self.api.post("/datasources", body, status=201)
        self.run("/datasources/shop:test")
        self.run("/datasources/shop:discover")
        policy = {"lag_seconds": LAG_SECONDS, "schema_changes": "ask"}
        self.patch("/datasources/shop/policy", policy)
        late = {"late_after_seconds": 1800, "verify_rows_per_second": 1000}
        self.patch("/datasources/shop/databases/public/policy", late)

    def make_people(self) -> None:
        for name, password in PEOPLE.items():
            body = {"name": name, "password": password, "groups": ["analysts"]}
            self.api.post("/users", body, status=201)
        hook = {
            "name": "ops",
            "kind": "webhook",
            "url": self.hook,
            "secret": "secret of the former hook",
            "kinds": ["failed", "late"],
        }
        self.api.post("/alert-targets", hook, status=201)
        query = {"name": "all", "sql": "SELECT * FROM orders", "is_shared": True}
        self.api.post("/saved-queries", query, status=201)

    def onboard(self) -> None:
        body = {
            "datasource": "shop",
            "include": [f"public.{name}" for name in (*TABLES, UNDECIDED)],
            "capture": "timestamp",
            "schedule": "manual",
            "tables": {
                "public.clicks": {"record_key": "row_hash", "capture": "snapshot"},
                "public.countries": {"capture": "snapshot"},
                "public.stock": {
                    "partition_by": ["shelf"],
                    "updates": "partial",
                    "schedule": NIGHTLY,
                },
                "public.orders": {"buckets": 2},
            },
            "approve": True,
        }
        self.api.post("/onboardings", body)
        later = {"include": [f"public.{PLANNED}"], "tables": {}, "approve": False}
        self.api.post("/onboardings", {**body, **later})
        for name in TABLES:
            self.api.wait_live(f"lake.shop.{name}")
        for principal, role, on in (
            ("user:ann", "analyst", "lake.shop.orders"),
            ("group:analysts", "viewer", "lake.shop.countries"),
            ("user:ben", "operator", "lake.shop.stock"),
        ):
            grant = {"principal": principal, "role": role, "on": on}
            self.api.post("/grants", grant, status=201)

    def sync(self, name: str, *statements: str) -> None:
        for statement in statements:
            self.source.execute(statement)
        time.sleep(LAG_SECONDS)
        self.run(f"/tables/{self.id_of(name)}:sync")

    def sync_and_compact(self) -> None:
        """Stock is compacted, with a savepoint and log files after it; of orders a
        compaction is planned and not executed."""
        touch = "updated_at = clock_timestamp()"
        stock = f"/tables/{self.id_of('stock')}"
        self.sync("stock", f"UPDATE stock SET pieces = 100, {touch} WHERE id % 5 = 0")
        self.run(f"{stock}:compact", {})
        self.run(f"{stock}/savepoints", {})
        empty = f"UPDATE stock SET remark = NULL, {touch} WHERE id % 8 = 0"
        self.sync("stock", empty)
        self.run(f"{stock}:verify")
        self.run(f"/tables/{self.id_of('customers')}:resync", {})
        self.sync("invoices", f"UPDATE invoices SET total = 0, {touch} WHERE id < 5")
        far = time.gmtime(time.time() + 12 * 3600)
        window = {
            "from": time.strftime("%H:00", far),
            "to": time.strftime("%H:01", far),
            "timezone": "UTC",
        }
        keep = {
            "compact_after": 1,
            "max_write_amplification": 100_000,
            "quiet_hours": window,
        }
        self.patch(f"/tables/{self.id_of('orders')}/policy", keep)
        self.sync("orders", f"UPDATE orders SET note = 'second', {touch} WHERE id < 9")
        self.sync(
            "orders",
            f"UPDATE orders SET paid = NULL, tags = NULL, {touch} WHERE id % 10 = 3",
            "INSERT INTO orders (id, amount, note) VALUES (61, 9999999999.99, '')",
        )

    def change_schema(self) -> None:
        """A column that was added at the source waits for approval."""
        self.source.execute("ALTER TABLE customers ADD COLUMN city text")
        self.run("/datasources/shop:discover")

    def cancel_job(self) -> None:
        """A verification that waits for a lock of its source."""
        with self.held_verification("stock") as job:
            self.api.post(f"/jobs/{job}:cancel", {})
            ended = self.api.wait_job(job)
        assert ended["state"] == "CANCELLED", ended

    @contextmanager
    def held_verification(self, name: str) -> Iterator[str]:
        """A job that runs, and waits for a lock of its source while inside."""
        with self.source.transaction():
            self.source.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
            job = str(self.api.post(f"/tables/{self.id_of(name)}:verify")["id"])

            def runs() -> bool:
                return bool(self.api.get(f"/jobs/{job}")["state"] == "RUNNING")

            wait_for(runs, "the verification to run")
            yield job

    def fail_table(self) -> None:
        self.source.execute("DROP TABLE fragile")
        fragile = self.id_of("fragile")
        job = self.api.wait_job(self.api.post(f"/tables/{fragile}:sync")["id"])
        assert job["state"] == "FAILED", job
        wait_for(lambda: self.api.get("/alerts")["items"], "an alert")

    def pause(self) -> None:
        self.api.post(f"/tables/{self.id_of('invoices')}:pause", {})

    def is_at_rest(self) -> bool:
        jobs = self.api.get("/jobs?page_size=200")["items"]
        looks = [
            self.api.call("GET", f"/tables/{self.id_of(name)}/health?look=now")
            for name in TABLES
        ]
        sent = self.api.get("/alert-targets/ops/deliveries")["items"]
        ended = {"SUCCEEDED", "FAILED", "CANCELLED"}
        return (
            all(job["state"] in ended for job in jobs)
            and all(look.status == 200 for look in looks)
            # of the test and of the failed table
            and [one["state"] for one in sent] == ["delivered"] * 2
        )


def addresses(api: Api) -> list[str]:
    """What is asked of a product to record it: lists, and each thing that they name."""
    found = [
        "/config", "/datasources", "/datasources/kinds", "/tables?page_size=200",
        "/users", "/grants", "/tokens", "/jobs?page_size=200", "/onboardings",
        "/alerts", "/alert-targets", "/alert-targets/ops",
        "/alert-targets/ops/deliveries", "/saved-queries", "/audit?page_size=200",
        "/datasources/shop", "/datasources/shop/databases",
        "/datasources/shop/databases/public",
        "/datasources/shop/databases/public/tables?page_size=200",
        "/datasources/shop/policy", "/datasources/shop/databases/public/policy",
        "/datasources/lake/databases/shop/tables?page_size=200",
        "/users/ann",
    ]  # fmt: skip
    for row in api.get("/tables?page_size=200")["items"]:
        found += [f"/tables/{row['id']}{part}" for part in ("", *_OF_TABLES)]
        if row["kind"] == "lake":
            found += [f"/tables/{row['id']}/{part}" for part in _OF_LAKE_TABLES]
    for row in api.get("/jobs?page_size=200")["items"]:
        found += [f"/jobs/{row['id']}{part}" for part in ("", "/logs?page_size=200")]
    for row in api.get("/onboardings")["items"]:
        found.append(f"/onboardings/{row['id']}")
    for principal in ("user:ann", "user:ben", "group:analysts"):
        for on in ("shop", "lake.shop", *(f"lake.shop.{name}" for name in TABLES)):
            found.append(
                f"/grants/effective?principal={quote(principal)}&on={quote(on)}"
            )
    return found


_OF_TABLES = ("/schema", "/schema-history")
_OF_LAKE_TABLES = (
    "commits", "policy", "health", "files", "metrics", "savepoints", "schema-change",
)  # fmt: skip
