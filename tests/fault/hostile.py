"""Sources that change under running jobs: schedules by seed, on servers of our own.

One fact per schedule: what happened, how the job ended, how long a definition statement
of the source waited for us, and under `error` what broke the oracle.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.fault.repairs import start_spark
from tests.hostile.hosts import MariadbHost, PostgresHost
from tests.hostile.play import Plan, Stage, short_pauses
from tests.hostile.schedules import FOUND, KINDS, plan_of
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench

# A run waits more than it works: so many of each kind of source go on side by side.
STAGES = 2


def run(home: Path, first: int, count: int) -> Iterator[dict[str, Any]]:
    """`count` schedules from seed `first` on, behind those that once failed."""
    with ExitStack() as stack:
        stages = _stages(stack, home)
        stack.enter_context(short_pauses())
        pools = {kind: stack.enter_context(_pool()) for kind in KINDS}
        seeds = (*FOUND, *range(first, first + count))
        plans = [plan_of(seed) for seed in seeds]
        runs = [
            pools[plan.kind].submit(_one, stages[plan.kind], plan) for plan in plans
        ]
        for done in as_completed(runs):
            yield done.result()


def summary(done: Sequence[dict[str, Any]]) -> str:
    longest = max((facts["alter_waited_seconds"] for facts in done), default=0.0)
    ended: dict[str, int] = {}
    for facts in done:
        end = facts["code"] or facts["outcome"]
        ended[end] = ended.get(end, 0) + 1
    failed = [facts["seed"] for facts in done if "error" in facts]
    idle = sum(not facts["acted"] for facts in done)
    return (
        f"{len(done)} schedules of a hostile source, {len(failed)} violations"
        f" (seeds {failed}), {idle} with nobody acting before the job's end; jobs ended"
        f" as {ended}; a statement that changes a table"
        f" waited {longest} s for us at most\n"
    )


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for the stages of a kind; what was not begun is left at the end."""
    pool = ThreadPoolExecutor(STAGES)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _one(free: SimpleQueue[Stage], plan: Plan) -> dict[str, Any]:
    stage, start = free.get(), time.monotonic()
    try:
        facts = stage.play(plan).facts
    except Exception:  # noqa: BLE001 - the run goes on and says so
        facts = stage.nothing_of(plan) | {"error": traceback.format_exc()[-2_000:]}
    finally:
        free.put(stage)
    return {**facts, "seconds": round(time.monotonic() - start, 1)}


def _stages(stack: ExitStack, home: Path) -> dict[str, SimpleQueue[Stage]]:
    """Each with a server of its own, for what waits is asked of the whole server."""
    spark = start_spark(stack, home)
    free: dict[str, SimpleQueue[Stage]] = {kind: SimpleQueue() for kind in KINDS}
    for number in range(STAGES):
        for stage in (
            postgresql_stage(stack, spark, home, f"hostile{number}"),
            mariadb_stage(stack, spark, home / f"mariadb{number}"),
        ):
            free[stage.side.kind].put(stage)
    return free


def postgresql_stage(stack: ExitStack, spark: Any, home: Path, name: str) -> Stage:
    from config.embedded.postgres import EmbeddedPostgres

    server = EmbeddedPostgres(home, name, durable=False)
    stack.callback(server.destroy)
    server.start()
    server.ensure_database("hostile")
    bench = LakeBench(spark, server.address.url("hostile"), home / name)
    return _closed(stack, Stage(bench, PostgresHost(server, bench)))


def mariadb_stage(stack: ExitStack, spark: Any, root: Path) -> Stage:
    server = MariaDbServer()
    stack.callback(server.destroy)
    server.start()
    bench = MariadbBench(spark, server, root)
    return _closed(stack, Stage(bench, MariadbHost(bench)))


def _closed(stack: ExitStack, stage: Stage) -> Stage:
    stack.callback(stage.close)
    return stage
