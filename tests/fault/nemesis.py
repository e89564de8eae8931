"""What a fault run does and checks, for the one-seed tests and the campaign alike.

One run: start work, wait a seeded random time, kill one victim, then demand within
60 s that every job is judged, nothing is orphaned and the lake equals the source.
"""

from __future__ import annotations

import contextlib
import random
import time
from datetime import UTC, datetime
from typing import Any

import psutil
import redis
from thrift.transport.TTransport import TTransportException

from tests.processes import family, kill, line_of, of_home
from tests.product import Product
from tests.waiting import wait_for

GOAL_SECONDS = 60.0
VICTIMS = (
    "driver",
    "driver_jvm",
    "driver_host",
    "worker",
    "web",
    "gateway",
    "redis",
    "flushall",
    "postgres",
)
# table of the demo -> its key
CHECKED = {
    "customers": ("id",),
    "orders": ("id",),
    "order_items": ("order_id", "line"),
}


def strike(product: Product, victim: str) -> None:
    """Kill -9 the victim, or empty the broker."""
    if victim == "flushall":
        url = (product.home / "keys" / "redis_url").read_text().strip()
        redis.Redis.from_url(url.replace("redis+socket://", "unix://")).flushall()
        return
    role = victim.removesuffix("_jvm")
    fewest = 2 if victim == "driver_jvm" else 1

    def found() -> Any:
        processes = family(product.reload()["pids"][role])
        return processes if len(processes) >= fewest else None

    targets = wait_for(found, f"{victim} to kill")
    if victim == "driver":
        targets = targets[:1]  # the Python half; the JVM has to end by itself
    if victim == "driver_jvm":
        targets = targets[1:]
    kill(targets)


def run(product: Product, victim: str, seed: int) -> dict[str, Any]:
    """One fault run; raises AssertionError with what is wrong, else its facts."""
    chance = random.Random(seed)
    api = product.api
    started = [
        api.post(f"/tables/{api.table(f'lake.demo.{name}')['id']}:{verb}")["id"]
        for name, verb in (("order_items", "resync"), ("orders", "compact"))
    ]
    delay = chance.uniform(0.0, 4.0)
    time.sleep(delay)
    strike(product, victim)
    struck = time.monotonic()
    wait_for(lambda: _all_judged(product), "every job to be judged")
    judged = time.monotonic() - struck
    for job_id in started:
        job = wait_for(lambda j=job_id: _finished(product, j), f"job {job_id}")
        assert job["state"] in {"SUCCEEDED", "FAILED", "CANCELLED"}
        assert job["state"] != "FAILED" or job["error"]["message"], job
    wait_for(lambda: _equal(product), "the lake to equal the source")
    wait_for(lambda: not _orphans(product), "no orphan process")
    return {
        "victim": victim,
        "seed": seed,
        "delay": round(delay, 2),
        "judged_seconds": round(judged, 1),
    }


def _finished(product: Product, job_id: str) -> Any:
    try:
        job = product.api.get(f"/jobs/{job_id}")
    except (OSError, AssertionError):
        return None
    return job if job["finished_at"] else None


def _all_judged(product: Product) -> bool:
    """SUCCEEDED, FAILED with a reason, or RUNNING with progress newer than 10 s."""
    try:
        jobs = product.api.get("/jobs?page_size=100")["items"]
    except (OSError, AssertionError):
        return False
    return all(_is_judged(job) for job in jobs)


def _is_judged(job: dict[str, Any]) -> bool:
    state = job["state"]
    if state in {"SUCCEEDED", "CANCELLED", "QUEUED", "PLANNED"}:
        return True
    if state == "FAILED":
        return bool(job["error"] and job["error"]["message"])
    if state != "RUNNING":
        return False
    seen = job.get("progress_at")
    if not seen:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(seen)
    return age.total_seconds() < 10


def _orphans(product: Product) -> list[str]:
    """Spark processes of this product that connection.json does not know."""
    pids = product.reload()["pids"]
    leaders = (pids["driver"], *pids["engines"])
    known = {one.pid for leader in leaders for one in family(leader)}
    lines = {one.pid: line_of(one) for one in of_home(product.home)}
    return [
        f"{pid} {line[:200]}"
        for pid, line in lines.items()
        if "org.apache.spark" in line and pid not in known
    ]


def _equal(product: Product) -> bool:
    """Whether each checked table equals its source by key, with the writer stopped."""
    writer = family(product.reload()["pids"]["demo_writer"])[:1]
    if not writer:
        return False
    try:
        with contextlib.suppress(psutil.NoSuchProcess):
            writer[0].suspend()
        time.sleep(0.2)
        with product.source() as source:
            source.execute("SET TIME ZONE 'UTC'")
            return _settle(product, source)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            writer[0].resume()


def _settle(product: Product, source: Any) -> bool:
    """Within some seconds; else the writer goes on, as what waits for it may have to."""
    for _ in range(30):
        if all(_is_same(product, source, name) for name in CHECKED):
            return True
        time.sleep(1)
    return False


def _is_same(product: Product, source: Any, name: str) -> bool:
    """Read through the gateway, as users do."""
    key = CHECKED[name]
    stamp = "(extract(epoch FROM updated_at) * 1000000)::bigint"
    asked = source.execute(f"SELECT {', '.join(key)}, {stamp} FROM {name}")
    expected = {row[:-1]: row[-1] for row in asked}
    wanted = f"SELECT {', '.join(key)}, unix_micros(updated_at) FROM lake.demo.{name}"
    try:
        with product.hive() as hive, hive.cursor() as cursor:
            cursor.execute(wanted)
            rows = cursor.fetchall()
    except TTransportException:
        return False  # a killed gateway is on its way
    found = {tuple(row[:-1]): row[-1] for row in rows}
    twice = len(rows) - len(found)
    assert not twice, f"{name}: {twice} duplicate keys in the lake"
    return found == expected
