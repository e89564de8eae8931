"""`python -m config.demo.writer HOME`: makes the shop, then keeps it selling.

A few changes per second at first, so that numbers move while a user looks on; later
on a sale now and then, for a demo that is left alone shall cost next to nothing.
"""

from __future__ import annotations

import json
import random
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from config.embedded import EmbeddedPostgres
from core.files import write_private
from core.processes.stop import stop_event

DATABASE, USER = "shop", "shop"
# from one sale to the next, and how long the shop is busy
PERIOD_SECONDS, BUSY_SECONDS = 0.4, 120.0
QUIET_PERIOD_SECONDS = 30.0
AWAY_SECONDS = 2.0
SHOP = Path(__file__).with_name("shop.sql")


@dataclass(frozen=True, slots=True)
class Shop:
    """The demo source of a home. `login` is what Sluice gets; it owns its database."""

    server: EmbeddedPostgres
    login_file: Path

    @classmethod
    def of(cls, home: Path) -> Shop:
        return cls(EmbeddedPostgres(home, "demo"), home / "keys" / "demo_source.json")

    def open(self) -> None:
        """Make user, database and content where they are missing."""
        password = self._password()
        with psycopg.connect(
            self.server.address.url("postgres"), autocommit=True
        ) as link:
            _ensure_user(link, password)
            if not _exists(link, "pg_database", "datname", DATABASE):
                link.execute(f"CREATE DATABASE {DATABASE} OWNER {USER}")
        with self.connect(password) as link:
            if link.execute("SELECT to_regclass('order_items')").fetchone() == (None,):
                with link.transaction():
                    link.execute(SHOP.read_bytes())
        self._write_login(password)

    def connect(self, password: str = "") -> psycopg.Connection[Any]:
        address = self.server.address
        return psycopg.connect(
            host=address.host,
            port=address.port,
            dbname=DATABASE,
            user=USER,
            password=password or self._password(),
            application_name="shop",
            autocommit=True,
        )

    def _password(self) -> str:
        if self.login_file.exists():
            return str(json.loads(self.login_file.read_text())["password"])
        return secrets.token_urlsafe(18)

    def _write_login(self, password: str) -> None:
        address = self.server.address
        body = {
            "kind": "postgresql",
            "host": address.host,
            "port": address.port,
            "database": DATABASE,
            "username": USER,
            "password": password,
        }
        write_private(self.login_file, json.dumps(body))


def _exists(link: psycopg.Connection[Any], table: str, column: str, name: str) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(
        sql.Identifier(table), sql.Identifier(column)
    )
    return link.execute(query, [name]).fetchone() is not None


def _ensure_user(link: psycopg.Connection[Any], password: str) -> None:
    """No superuser: what capture needs, and databases of its own to try."""
    verb = "ALTER" if _exists(link, "pg_roles", "rolname", USER) else "CREATE"
    text = f"{verb} ROLE {USER} LOGIN CREATEDB CREATEROLE REPLICATION PASSWORD {{}}"
    link.execute(sql.SQL(text).format(sql.Literal(password)))
    link.execute(f"GRANT pg_read_all_stats TO {USER} WITH ADMIN OPTION")


def sell(link: psycopg.Connection[Any], chance: random.Random) -> None:
    """One moment in the shop: an order, a step of another one, a changed price, now and
    then an old order that is deleted."""
    with link.transaction():
        found = link.execute(
            "INSERT INTO orders (customer_id, status, ordered_on, total, updated_at)"
            " VALUES (%s, 'new', current_date, %s, clock_timestamp()) RETURNING id",
            [chance.randint(1, 2000), round(5 + chance.random() ** 3 * 700, 2)],
        ).fetchone()
        assert found is not None
        for line in range(1, chance.randint(2, 4)):
            link.execute(
                "INSERT INTO order_items SELECT %s, %s, id, %s, price,"
                " clock_timestamp() FROM products WHERE id = %s",
                [found[0], line, chance.randint(1, 4), chance.randint(1, 200)],
            )
        if chance.random() < 0.1:
            old = [found[0] - chance.randint(1_000, 10_000)]
            link.execute("DELETE FROM order_items WHERE order_id = %s", old)
            link.execute("DELETE FROM orders WHERE id = %s", old)
    link.execute(
        "UPDATE orders SET updated_at = clock_timestamp(), status = CASE status"
        " WHEN 'new' THEN 'paid' WHEN 'paid' THEN 'packed' ELSE 'sent' END"
        "::order_status WHERE id = %s",
        [found[0] - chance.randint(1, 40)],
    )
    if chance.random() < 0.2:
        link.execute(
            "UPDATE products SET stock = stock + %s, updated_at = clock_timestamp()"
            " WHERE id = %s",
            [chance.randint(-5, 20), chance.randint(1, 200)],
        )
    if chance.random() < 0.2:
        link.execute(
            "UPDATE customers SET balance = balance + %s,"
            " updated_at = clock_timestamp() WHERE id = %s",
            [round(chance.random() * 20, 2), chance.randint(1, 2000)],
        )


def _pause(open_for: float) -> float:
    return PERIOD_SECONDS if open_for < BUSY_SECONDS else QUIET_PERIOD_SECONDS


def main(home: Path) -> int:
    stop = stop_event()
    shop, chance, began = Shop.of(home), random.Random(), time.monotonic()
    while not stop.is_set():
        try:
            shop.open()
            with shop.connect() as link:
                while not stop.wait(_pause(time.monotonic() - began)):
                    sell(link, chance)
        except psycopg.OperationalError:
            stop.wait(AWAY_SECONDS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
