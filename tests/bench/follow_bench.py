"""Following a log, from the source's commit to the lake's: how old rows are when they
can be read, what is carried in a second, what a late table costs, and what all of it
takes while nothing changes. The source runs on the same cores. Alone: `python -m tests.bench.follow_bench FILE`.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.processes import family
from tests.product import Product, manage
from tests.waiting import wait_for

SOURCE = "followed"
RATE = int(os.environ.get("SLUICE_BENCH_FOLLOW_RATE", "600"))
SECONDS = float(os.environ.get("SLUICE_BENCH_FOLLOW_SECONDS", "60"))
BURST = int(os.environ.get("SLUICE_BENCH_FOLLOW_BURST", "50000"))
TABLES = int(os.environ.get("SLUICE_BENCH_FOLLOW_TABLES", "10"))
# with more, how they are carried beside one another is the question
MOST_TABLES = 10
# Commits after which a table is compacted once it has rested for five minutes, by the
# policy that is the default.
COMPACTED_AFTER = 5
_TURN = 0.1
_COMMIT = re.compile(r"(\d{17})_(\d{17})\.deltacommit$")


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="sluice-follow-"))
    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        product = Product(home=home, connection={})
        product.reload()
        begin(product)
        figures = {"cores": os.cpu_count(), "rate": RATE, "seconds": SECONDS}
        for count in (1, TABLES) if TABLES <= MOST_TABLES else (TABLES,):
            figures |= freshness(product, count)
        if TABLES <= MOST_TABLES:
            figures |= sustained(product)
            figures |= late_table(product)
        figures |= idle(product)
        Path(sys.argv[1]).write_text(json.dumps(figures, indent=1))
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))
    return 0


def begin(product: Product) -> None:
    with product.source("postgres") as link:
        link.execute(f"CREATE DATABASE {SOURCE}")
    with product.source(SOURCE) as link:
        for number in range(TABLES):
            link.execute(
                f"CREATE TABLE t{number} (id bigserial PRIMARY KEY, at timestamptz,"
                " customer int, amount numeric(12,2), state text, note text)"
            )
            link.execute(
                f"INSERT INTO t{number} (at, customer, note) SELECT now(), 1, 'first'"
                " FROM generate_series(1, 1000)"
            )
    product.register(SOURCE)
    product.discover(SOURCE)
    body = {"datasource": SOURCE, "include": ["public.*"], "capture": "log"}
    product.api.post("/onboardings", {**body, "approve": True})
    for number in range(TABLES):
        product.api.wait_live(f"lake.{SOURCE}.t{number}")


def idle(product: Product) -> dict[str, Any]:
    """Percent of a core while no row changes and nothing that was written is left to be
    looked after, by who takes it. Last of all: before, the JVMs compile what they
    ran."""
    _wait_level(product)
    # the demo's shop goes on selling, twice a minute
    shop = psutil.Process(product.reload()["pids"]["demo_writer"])
    shop.suspend()
    try:
        _wait_quiet(product)
        time.sleep(SECONDS)
        before, files = _cpu(product), _segments(product)
        time.sleep(SECONDS)
    finally:
        shop.resume()
    spent = {name: now - before[name] for name, now in _cpu(product).items()}
    shares = {n: round(100 * each / SECONDS, 1) for n, each in spent.items()}
    made = len(_segments(product) - files) / SECONDS
    return {
        "idle, percent of a core": shares,
        "idle, segments a second": round(made, 2),
    }


def freshness(product: Product, tables: int) -> dict[str, Any]:
    """Seconds from a row's transaction to the lake's commit that has it, at RATE rows a
    second over so many tables; and processor seconds of who carries them."""
    began = datetime.now(UTC)
    before = _cpu(product)
    files = _segments(product)
    _write(product, tables)
    made = len(_segments(product) - files) / SECONDS
    spent = {name: round(now - before[name], 2) for name, now in _cpu(product).items()}
    _wait_level(product)
    ages = [age for n in range(tables) for age in _ages(product, n, since=began)]
    ages.sort()
    name = f"freshness, {tables} tables"
    return {
        f"{name}, p50 s": round(statistics.median(ages), 2),
        f"{name}, p95 s": round(ages[int(len(ages) * 0.95)], 2),
        f"{name}, rows": len(ages),
        f"{name}, commits a second": round(
            _commits(product, tables, began) / SECONDS, 2
        ),
        f"{name}, segments a second": round(made, 2),
        f"{name}, processor s": spent,
    }


def sustained(product: Product) -> dict[str, Any]:
    """Changes a second: BURST rows into each table, as fast as they are written,
    until the lake has all."""
    began = time.monotonic()
    with product.source(SOURCE) as link:
        for first in range(0, BURST, 5000):
            for number in range(TABLES):
                link.execute(
                    f"INSERT INTO t{number} (at, customer, amount, state, note) SELECT"
                    f" now(), g, g / 7.0, 'state ' || g % 9, repeat('x', 100) FROM"
                    f" generate_series({first}, {first + 4999}) g"
                )
    written = time.monotonic() - began
    _wait_level(product)
    seconds = time.monotonic() - began
    changes = BURST * TABLES
    return {
        "sustained, changes": changes,
        "sustained, changes a second": round(changes / seconds),
        "sustained, seconds written : until level": f"{written:.1f} : {seconds:.1f}",
    }


def late_table(product: Product) -> dict[str, Any]:
    """A table that was paused while many epochs came: commits until it is level."""
    table = product.api.table(f"lake.{SOURCE}.t0")
    product.api.post(f"/tables/{table['id']}:pause")
    wait_for(
        lambda: product.api.table(f"lake.{SOURCE}.t0")["status"] == "PAUSED", "pause"
    )
    with product.source(SOURCE) as link:
        for _ in range(600):
            link.execute(
                "INSERT INTO t0 (at, customer, note) VALUES (now(), 1, 'late')"
            )
            time.sleep(0.1)
    since = datetime.now(UTC)
    began = time.monotonic()
    product.api.post(f"/tables/{table['id']}:resume")
    _wait_level(product)
    return {
        "late table, seconds": round(time.monotonic() - began, 1),
        "late table, commits": _commits(product, 1, since),
    }


def _write(product: Product, tables: int) -> None:
    """RATE rows a second in all, a transaction per table and turn."""
    every = max(_TURN, tables / RATE)
    each = round(RATE * every / tables)
    with product.source(SOURCE) as link:
        until = time.monotonic() + SECONDS
        turn = time.monotonic()
        while turn < until:
            for number in range(tables):
                link.execute(
                    f"INSERT INTO t{number} (at, customer, amount, state, note) SELECT"
                    f" clock_timestamp(), g, g / 7.0, 'state', repeat('x', 100)"
                    f" FROM generate_series(1, {each}) g"
                )
            turn += every
            time.sleep(max(0.0, turn - time.monotonic()))


def _wait_level(product: Product) -> None:
    """Every table has the rows of its source."""
    with product.source(SOURCE) as link:
        link.execute("SELECT 1")
        counts = {
            number: link.execute(f"SELECT max(id) FROM t{number}").fetchone()[0]
            for number in range(TABLES)
        }
    with product.hive() as hive:
        cursor = hive.cursor()

        def is_level() -> bool:
            for number in list(counts):
                cursor.execute(f"SELECT max(id) FROM {SOURCE}.t{number}")
                if cursor.fetchone()[0] != counts[number]:
                    return False
                del counts[number]
            return True

        wait_for(is_level, "the lake to be level", pause=0.2)


def _wait_quiet(product: Product) -> None:
    """Each table was looked at behind its last commit, what these looks asked for is
    done, and so is every job."""
    for number in range(TABLES):
        wait_for(partial(_rests, product, number), f"t{number} to be at rest", pause=2)
    wait_for(
        lambda: not product.api.get("/jobs?is_finished=false&page_size=1")["items"],
        "jobs to end",
        pause=2,
    )


def _rests(product: Product, number: int) -> bool:
    table = product.api.table(f"lake.{SOURCE}.t{number}")
    health = product.api.get(f"/tables/{table['id']}/health")
    looked, commit = health["collected_at"], table["last_commit"]["at"]
    if not looked or looked < commit or health["plan"] or health["pending"]:
        return False
    return int(health["facts"]["delta_commits"]) < COMPACTED_AFTER


def _ages(product: Product, number: int, *, since: datetime) -> list[float]:
    completed = dict(_completed(product, number))
    with product.hive() as hive:
        cursor = hive.cursor()
        cursor.execute(
            f"SELECT _hoodie_commit_time, unix_micros(at) FROM {SOURCE}.t{number}"
            f" WHERE unix_micros(at) >= {int(since.timestamp() * 1_000_000)}"
        )
        rows = cursor.fetchall()
    return [
        completed[i].timestamp() - at / 1_000_000 for i, at in rows if i in completed
    ]


def _completed(product: Product, number: int) -> list[tuple[str, datetime]]:
    """(instant, when it was completed) of a table's commits, as the timeline says."""
    folder = Path(product.connection["lake"]) / SOURCE / f"t{number}" / ".hoodie"
    found = []
    for file in (folder / "timeline").glob("*.deltacommit"):
        if name := _COMMIT.search(file.name):
            found.append((name[1], _moment(name[2])))
    return found


def _segments(product: Product) -> set[Path]:
    """The files of the log in the lake."""
    log = Path(product.connection["lake"]) / "_sluice" / "log"
    return {path for path in log.rglob("*") if path.is_file()}


def _moment(text: str) -> datetime:
    return datetime.strptime(text + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)


def _commits(product: Product, tables: int, since: datetime) -> int:
    return sum(at >= since for n in range(tables) for _, at in _completed(product, n))


def _cpu(product: Product) -> dict[str, float]:
    """Processor seconds so far, by role."""
    pids = product.reload()["pids"]
    roles = {
        "driver": [pids["driver"]],
        "driver host": [pids["driver_host"]],
        "followers": pids["captures"],
        "host of followers": [pids["followers"]],
        "tick": [pids["tick"]],
        "web and worker": [pids["web"], pids["worker"]],
        "gateway and engines": [pids["gateway"], *pids["engines"]],
        "metadata database": [pids["postgres"]],
        "the source and who writes there": [pids["demo_postgres"], pids["demo_writer"]],
        "others": [pids[r] for r in pids if isinstance(pids[r], int)],
    }
    seen: set[psutil.Process] = set()
    found: dict[str, float] = {}
    for role, leaders in roles.items():
        # what is below or named before is counted already
        own = {one for pid in leaders for one in family(pid)} - seen
        found[role] = round(sum(map(_spent, own)), 2)
        seen |= own
    return found


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


if __name__ == "__main__":
    sys.exit(main())
