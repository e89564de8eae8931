"""Sources that change under running jobs: schedules by seed, on servers of our own.

One fact per schedule: what happened, how the job ended, how long a definition statement
of the source waited for us, and under `error` what broke the oracle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.fault.repairs import start_spark
from tests.hostile.play import Stage
from tests.hostile.schedules import FOUND, KINDS, plan_of
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench


def run(home: Path, first: int, count: int) -> Iterator[dict[str, Any]]:
    """`count` schedules from seed `first` on, behind those that once failed."""
    with ExitStack() as stack:
        stages = _stages(stack, home)
        for seed in (*FOUND, *range(first, first + count)):
            yield _one(stages, seed)


def summary(done: Sequence[dict[str, Any]]) -> str:
    longest = max((facts["alter_waited_seconds"] for facts in done), default=0.0)
    ended: dict[str, int] = {}
    for facts in done:
        end = facts["code"] or facts["outcome"]
        ended[end] = ended.get(end, 0) + 1
    failed = [facts["seed"] for facts in done if "error" in facts]
    return (
        f"{len(done)} schedules of a hostile source, {len(failed)} violations"
        f" (seeds {failed}); jobs ended as {ended}; a statement that changes a table"
        f" waited {longest} s for us at most\n"
    )


def _one(stages: dict[str, Stage], seed: int) -> dict[str, Any]:
    plan, start = plan_of(seed), time.monotonic()
    try:
        facts = stages[plan.kind].play(plan).facts
    except AssertionError as error:
        facts = stages[plan.kind].nothing_of(plan) | {"error": str(error)[:2_000]}
    return {**facts, "seconds": round(time.monotonic() - start, 1)}


def _stages(stack: ExitStack, home: Path) -> dict[str, Stage]:
    from config.embedded.postgres import EmbeddedPostgres

    postgres = EmbeddedPostgres(home, "hostile", durable=False)
    stack.callback(postgres.destroy)
    postgres.start()
    postgres.ensure_database("hostile")
    mariadb = MariaDbServer()
    stack.callback(mariadb.destroy)
    mariadb.start()
    spark = start_spark(stack, home)
    benches = (
        LakeBench(spark, postgres.address.url("hostile"), home / "postgresql"),
        MariadbBench(spark, mariadb, home / "mariadb"),
    )
    made = {kind: Stage(bench) for kind, bench in zip(KINDS, benches, strict=True)}
    for stage in made.values():
        stack.callback(stage.close)
    return made
