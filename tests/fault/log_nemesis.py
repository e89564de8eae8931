"""What a fault run over log capture does and checks.

One run: a writer changes three followed tables at random, processes are killed and
stopped meanwhile, a table is resynced, a compaction runs. Then the writer ends, and
the lake, read through the gateway, has to equal the source by key and value. Beside it
the server is asked all the time what it was told to forget: never more than the last
segment that is durable, as the file itself says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
from pyhive import hive
from thrift.Thrift import TException

from tests.fault.log_writers import KEYS, TABLES, LogWriter, create_tables
from tests.processes import family, kill
from tests.product import Product
from tests.waiting import wait_for

VICTIMS = (
    "follower",
    "followers_host",
    "driver",
    "driver_jvm",
    "driver_host",
    "stopped_follower",
    "postgres",
    "source_sessions",
)
SOURCE = "logged"


def prepare(product: Product) -> None:
    """The source's database with its tables, followed and LIVE."""
    with product.source("postgres") as link:
        link.execute(f"CREATE DATABASE {SOURCE}")
    with product.source(SOURCE) as link:
        create_tables(link)
    product.register(SOURCE)
    product.discover(SOURCE)
    body = {"datasource": SOURCE, "include": ["public.*"], "capture": "log"}
    product.api.post("/onboardings", {**body, "approve": True})
    for name in TABLES:
        product.api.wait_live(f"lake.{SOURCE}.{name}")


def run(
    product: Product, victim: str, seed: int, *, strikes: int = 3
) -> dict[str, Any]:
    """One fault run; AssertionError with what is wrong, else its facts."""
    chance = random.Random(seed)
    with product.source(SOURCE) as link:
        dsn = (
            link.info.dsn + f" password={product.connection['demo_source']['password']}"
        )
    writer, sampler = (
        LogWriter(dsn, seed, has_large=seed % 4 == 0),
        Sampler(product, _stream(product)),
    )
    writer.start()
    sampler.start()
    try:
        _request(product, chance)
        for _ in range(strikes):
            time.sleep(chance.uniform(0.2, 3.0))
            strike(product, victim, chance)
    finally:
        writer.stop()
        sampler.stop()
    for name in TABLES:
        wait_for(
            lambda n=name: not differences(product, n), lambda n=name: _why(product, n)
        )
    assert not sampler.wrong, sampler.wrong[:5]
    assert sampler.samples, "the server was not asked once"
    return {
        "log": victim,
        "seed": seed,
        "done": writer.done,
        "samples": sampler.samples,
    }


def _request(product: Product, chance: random.Random) -> None:
    """Something else on one of the tables meanwhile."""
    verb = chance.choice(("resync", "compact", ""))
    if verb:
        name = f"lake.{SOURCE}.{chance.choice(list(TABLES))}"
        table = wait_for(lambda: _table(product, name), name)
        # a table may just have been truncated
        body = {"accept_empty": True} if verb == "resync" else None
        product.api.call("POST", f"/tables/{table['id']}:{verb}", body)


def _stream(product: Product) -> Path:
    """The source's, whose number its slot has, too."""
    with product.source(SOURCE) as link:
        (slot,) = link.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s", [SOURCE]
        ).fetchone() or ("",)
    number = slot.split("_")[1]
    return Path(product.connection["lake"]) / "_sluice" / "log" / f"source{number}"


def _table(product: Product, name: str) -> Any:
    """None while the database is away."""
    try:
        return product.api.table(name)
    except AssertionError:
        return None


def strike(product: Product, victim: str, chance: random.Random) -> None:
    if victim == "source_sessions":
        with product.source("postgres") as link:
            link.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND pid <> pg_backend_pid()",
                [SOURCE],
            )
        return
    found = wait_for(lambda: _processes(product, victim), f"{victim} to strike")
    if victim == "stopped_follower":
        _stop_past_its_lease(found[0], chance)
        return
    kill(found)


def _stop_past_its_lease(process: psutil.Process, chance: random.Random) -> None:
    """It wakes up beside its successor, or just in time."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(chance.choice((1.0, 45.0)))
    try:
        process.resume()
    except psutil.NoSuchProcess:
        return


def _processes(product: Product, victim: str) -> list[psutil.Process]:
    pids = product.reload()["pids"]
    if victim in {"follower", "stopped_follower"}:
        return [one for pid in pids["captures"] for one in family(pid)]
    if victim == "followers_host":
        return family(pids["followers"])[:1]
    found = family(pids[victim.removesuffix("_jvm")])
    if victim == "driver":
        return found[:1]
    if victim == "driver_jvm":
        return found[1:]
    return found


@dataclass
class Sampler:
    """Compares what the server may forget with the newest segment, again and again."""

    product: Product
    stream: Path
    samples: int = 0
    wrong: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(0.05):
            try:
                with self.product.source(SOURCE) as link:
                    while not self._ended.wait(0.05):
                        self._look(link)
            except psycopg.OperationalError:
                continue  # its session was ended, too

    def _look(self, link: psycopg.Connection[Any]) -> None:
        # the server first: a segment may only come in between
        found = link.execute(
            "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots"
            " WHERE database = %s AND slot_name LIKE 'sluice%%'",
            [SOURCE],
        ).fetchall()
        end = durable_end(self.stream)
        for (told,) in found:
            self.samples += 1
            if end is not None and told > end:
                self.wrong.append(f"the server was told {told}, durable is {end}")


def durable_end(stream: Path) -> int | None:
    """Where the newest segment ends, by its footer; read without the product's code."""
    for file in sorted(stream.glob("*.seg"), reverse=True)[:1]:
        data = file.read_bytes()
        (size,) = struct.unpack(">I", data[-16:-12])
        footer = json.loads(data[-16 - size : -16])
        *_, high, low = footer["end"].replace("/", ":").split(":")
        return (int(high, 16) << 32) + int(low, 16)
    return None


def differences(product: Product, name: str) -> list[str]:
    """Keys whose rows differ, with both; read by the gateway and by psycopg."""
    try:
        return _differences(product, name)
    except (TException, hive.Error, OSError) as error:
        return [f"the gateway does not answer: {error}"]  # the database may be away


def _differences(product: Product, name: str) -> list[str]:
    columns = _columns(name)
    listed = ", ".join(f"CAST({c} AS string)" for c in columns)
    with product.hive() as link, link.cursor() as cursor:
        cursor.execute(f"SELECT {listed} FROM {SOURCE}.{name}")
        lake = [tuple(row) for row in cursor.fetchall()]
    with product.source(SOURCE) as link:
        link.execute("SET timezone = 'UTC'")
        asked = ", ".join(f"{c}::text" for c in columns)
        source = {
            tuple(row) for row in link.execute(f"SELECT {asked} FROM {name}".encode())
        }
    if len(lake) != len(set(lake)):
        return ["a row is there twice"]
    found = {_comparable(row) for row in lake} ^ {_comparable(row) for row in source}
    return sorted(str(one)[:200] for one in found)[:10]


def _columns(name: str) -> list[str]:
    return [part.split()[0] for part in _fields(TABLES[name])]


def _fields(definition: str) -> list[str]:
    inner = definition.strip("()").split(", PRIMARY KEY")[0]
    return [part.strip() for part in inner.replace("(12,2)", "").split(",")]


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Times print their zone and trailing zeros each in its own way."""
    shown = {"true": "true", "false": "false", "t": "true", "f": "false"}
    return tuple(_time(shown.get(v, v)) if isinstance(v, str) else v for v in row)


def _time(text: str) -> str:
    is_time = len(text) >= 19 and text[4:5] == "-" and text[10:11] == " "
    if not is_time:
        return text
    text = text.removesuffix("+00")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _why(product: Product, name: str) -> str:
    table = _table(product, f"lake.{SOURCE}.{name}")
    state = f"{table['status']}: {table['status_reason']}" if table else "gone"
    return f"{name} ({state}) to equal its source: {differences(product, name)}"


__all__ = ["KEYS", "VICTIMS", "prepare", "run"]
