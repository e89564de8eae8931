"""What a fault run over log capture does and checks.

One run: a writer changes the followed tables of each source at random, processes are
killed and stopped meanwhile, the network is cut, a disk is full, a table is resynced, a
compaction runs. Then the writers end, and the lake, read through the gateway, has to
equal the sources by key and value. `log_samples` says what has to hold all the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.fault.log_samples import AWAY, Sampler
from tests.fault.log_sources import (
    LoggedMariaDb,
    LoggedPostgres,
    LoggedSource,
    comparable,
)
from tests.fault.log_writers import KEYS, LogWriter
from tests.ports import free_port
from tests.processes import family, kill
from tests.product import Product
from tests.small_disk import SmallDisk
from tests.waiting import wait_for

VICTIMS = (
    "follower",
    "followers_host",
    "driver",
    "driver_jvm",
    "driver_host",
    "stopped_follower",
    "metadata",
    "metadata_away",
    "redis",
    "redis_away",
    "source",
    "source_sessions",
    "network_cut",
    "network_silent",
    "full_disk",
)


def _postgresql(product: Product) -> LoggedSource:
    """A database of the demo's server, which the product's supervisor starts again."""
    demo = product.connection["demo_source"]
    return LoggedPostgres(
        product.source,
        (demo["host"], demo["port"]),
        lambda: kill(family(product.reload()["pids"]["demo_postgres"])),
    )


def _mariadb(product: Product) -> LoggedSource:
    return LoggedMariaDb(lambda: stream_of(product, LoggedMariaDb.name))


KINDS = {"postgresql": _postgresql, "mariadb": _mariadb}
# as its follower says it, and who applies its rows, whoever is first
_REWRITTEN = (
    "and every row was rewritten",
    "which its plan has",
    "before the table's plan had it",
)
_AWAY_SECONDS = (2.0, 20.0)
# of a run in which nothing is struck
_LET_BE_SECONDS, _SELDOM = 20.0, 0.02
# within, and beyond what a reader takes for silence
_SILENT_SECONDS = (3.0, 45.0)


@dataclass
class World:
    """disk  of the chains, where it is one of its own"""

    product: Product
    sources: Sequence[LoggedSource]
    disk: SmallDisk | None = None

    @property
    def victims(self) -> tuple[str, ...]:
        return VICTIMS if self.disk else VICTIMS[:-1]


@contextlib.contextmanager
def world(
    product: Product, *kinds: str, disk: SmallDisk | None = None
) -> Iterator[World]:
    """Tables of these `KINDS` of sources, followed and LIVE."""
    with contextlib.ExitStack() as stack:
        made = World(product, [KINDS[kind](product) for kind in kinds], disk)
        for source in made.sources:
            stack.callback(source.close)
            product.register(source.name, **source.begin())
            source.fill()
            product.discover(source.name)
            _follow(product, source)
        yield made


def stream_of(product: Product, name: str) -> Path:
    """By the record of the source, which lies beside the streams."""
    root = Path(product.connection["lake"]) / "_sluice"

    def number() -> str | None:
        for file in (root / "sources").glob("*.json"):
            if json.loads(file.read_text())["name"] == name:
                return file.stem
        return None

    return root / "log" / f"source{wait_for(number, f'a record of {name}')}"


def _follow(product: Product, source: LoggedSource) -> None:
    include = [f"{source.schema}.{table}" for table in KEYS]
    body = {"datasource": source.name, "include": include, "capture": "log"}
    named = {"target_database": source.name, "approve": True}
    product.api.post("/onboardings", {**body, **named})
    for table in KEYS:
        product.api.wait_live(_lake_name(source, table))


def run(made: World, victim: str, seed: int, *, strikes: int = 3) -> dict[str, Any]:
    """One fault run; AssertionError with what is wrong, else its facts."""
    chance, product = random.Random(seed), made.product
    writers = [one.writer(seed, has_large=seed % 4 == 0) for one in made.sources]
    for writer in writers:
        # each stays in the lake's timeline for as long as queries may need what was
        writer.truncates = _SELDOM if victim == "nobody" else 1.0
    samplers = [
        Sampler(product, one, stream_of(product, one.name)) for one in made.sources
    ]
    threads: list[LogWriter | Sampler] = [*writers, *samplers]
    for thread in threads:
        thread.start()
    try:
        for source in made.sources:
            _request(product, source, chance)
        for _ in range(strikes):
            time.sleep(chance.uniform(0.2, 3.0))
            STRIKES[victim](made, chance)
        for writer in writers:
            writer.stop()
        for source in made.sources:
            _wait_equal(product, source)
    finally:
        for thread in threads:
            thread.stop()
    wrong = [text for one in threads for text in one.wrong]
    assert not wrong, wrong[:5]
    assert all(one.looks.get("log") for one in samplers), "a log was not looked at"
    return {
        "log": victim,
        "seed": seed,
        "done": {s.name: w.done for s, w in zip(made.sources, writers, strict=True)},
        "looks": {s.source.name: s.looks for s in samplers},
    }


def _request(product: Product, source: LoggedSource, chance: random.Random) -> None:
    """Something else on one of the tables meanwhile."""
    verb = chance.choice(("resync", "compact", ""))
    if verb:
        name = _lake_name(source, chance.choice(list(KEYS)))
        table = wait_for(lambda: _table(product, name), name)
        # a table may just have been truncated
        body = {"accept_empty": True} if verb == "resync" else None
        product.api.call("POST", f"/tables/{table['id']}:{verb}", body)


def _lake_name(source: LoggedSource, table: str) -> str:
    return f"lake.{source.name}.{table}"


def _table(product: Product, name: str) -> Any:
    """None while the database is away."""
    try:
        return product.api.table(name)
    except AWAY:
        return None


# -------------------------------------------------------------------- what strikes


def _kill(find: Callable[[World], list[psutil.Process]]) -> Callable[..., None]:
    def strike(made: World, _: random.Random) -> None:
        kill(wait_for(lambda: find(made), "something to strike"))

    return strike


def _stop(
    find: Callable[[World], list[psutil.Process]], seconds: Sequence[float]
) -> Callable[..., None]:
    """All of them stand still for one of so many seconds."""

    def strike(made: World, chance: random.Random) -> None:
        found = wait_for(lambda: find(made), "something to stop")
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)
        time.sleep(chance.choice(list(seconds)))
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    return strike


def _role(name: str) -> Callable[[World], list[psutil.Process]]:
    return lambda made: family(made.product.reload()["pids"][name])


def _leader(name: str) -> Callable[[World], list[psutil.Process]]:
    return lambda made: _role(name)(made)[:1]


def _below(name: str) -> Callable[[World], list[psutil.Process]]:
    return lambda made: _role(name)(made)[1:]


def _followers(made: World) -> list[psutil.Process]:
    """Of the sources that are looked at."""
    found = []
    for source in made.sources:
        number = stream_of(made.product, source.name).name.removeprefix("source")
        note = made.product.home / "run" / f"follower-{number}.pid.json"
        with contextlib.suppress(FileNotFoundError):
            found += family(json.loads(note.read_text())["pid"])
    return found


def _end_sessions(made: World, _: random.Random) -> None:
    for source in made.sources:
        source.end_sessions()


def _crash(made: World, _: random.Random) -> None:
    for source in made.sources:
        source.crash()


def _cut(made: World, chance: random.Random) -> None:
    """Connections break, and for a while there are no new ones."""
    targets = [source.proxy.target[1] for source in made.sources]
    for source in made.sources:
        source.proxy.follow(free_port())
        source.proxy.cut()
    time.sleep(chance.choice((0.0, 3.0, 15.0)))
    for source, port in zip(made.sources, targets, strict=True):
        source.proxy.follow(port)


def _silence(made: World, chance: random.Random) -> None:
    """Connections stay, and nothing goes through; some end when it is over."""
    for source in made.sources:
        source.proxy.freeze()
    time.sleep(chance.choice(_SILENT_SECONDS))
    for source in made.sources:
        if chance.random() < 0.5:
            source.proxy.cut()
        source.proxy.thaw()


def _fill(made: World, chance: random.Random) -> None:
    """No room for the next segment, or for the whole of it."""
    assert made.disk is not None
    with made.disk.full(but=chance.choice((0, 4 << 10, 64 << 10))):
        time.sleep(chance.choice((1.0, 8.0)))


def _let_be(_: World, __: random.Random) -> None:
    time.sleep(_LET_BE_SECONDS)


STRIKES: dict[str, Callable[[World, random.Random], None]] = {
    "nobody": _let_be,
    "follower": _kill(_followers),
    "followers_host": _kill(_leader("followers")),
    # the JVM has to end by itself
    "driver": _kill(_leader("driver")),
    "driver_jvm": _kill(_below("driver")),
    "driver_host": _kill(_role("driver_host")),
    # it wakes up beside its successor, or just in time
    "stopped_follower": _stop(_followers, (1.0, 45.0)),
    "metadata": _kill(_role("postgres")),
    "metadata_away": _stop(_role("postgres"), _AWAY_SECONDS),
    "redis": _kill(_role("redis")),
    "redis_away": _stop(_role("redis"), _AWAY_SECONDS),
    "source": _crash,
    "source_sessions": _end_sessions,
    "network_cut": _cut,
    "network_silent": _silence,
    "full_disk": _fill,
}


# ----------------------------------------------------------- what the lake has to be


def _wait_equal(product: Product, source: LoggedSource) -> None:
    for table in KEYS:
        wait_for(
            partial(_is_equal, product, source, table),
            partial(_why, product, source, table),
        )


def _is_equal(product: Product, source: LoggedSource, table: str) -> bool:
    _approve(product, _lake_name(source, table))
    return not differences(product, source, table)


def _approve(product: Product, name: str) -> None:
    """A column whose default nobody knows any more needs a load; so does one that came
    beside a TRUNCATE, as the table's file is another one then, too."""
    if not (table := _table(product, name)):
        return
    reason = table["status_reason"] or ""
    is_rewritten = any(words in reason for words in _REWRITTEN)
    if table["status"] == "NEEDS_RESYNC" and is_rewritten:
        product.api.call(
            "POST", f"/tables/{table['id']}:resync", {"accept_empty": True}
        )
        return
    change = product.api.call("GET", f"/tables/{table['id']}/schema-change").body
    if change.get("needs_resync"):
        product.api.call("POST", f"/tables/{table['id']}:approve-schema-change")


def differences(product: Product, source: LoggedSource, table: str) -> list[str]:
    """Keys whose rows differ, with both; read by the gateway and by the source's own
    client."""
    try:
        return _differences(product, source, table)
    except AWAY as error:
        return [f"something does not answer: {error}"]


def _differences(product: Product, source: LoggedSource, table: str) -> list[str]:
    columns, rows = source.rows(table)
    listed = ", ".join(f"CAST({c} AS string)" for c in columns)
    with product.hive() as link, link.cursor() as cursor:
        cursor.execute(f"SELECT {listed} FROM {source.name}.{table}")
        lake = [tuple(row) for row in cursor.fetchall()]
    if len(lake) != len(set(lake)):
        return ["a row is there twice"]
    found = {comparable(row) for row in lake} ^ {comparable(row) for row in rows}
    return sorted(str(one)[:200] for one in found)[:10]


def _why(product: Product, source: LoggedSource, table: str) -> str:
    found = _table(product, _lake_name(source, table))
    state = f"{found['status']}: {found['status_reason']}" if found else "gone"
    unlike = differences(product, source, table)
    return f"{source.name}.{table} ({state}) to equal its source: {unlike}"
