"""`make fault`: many seeds over all victims against one running product, drivers
killed in the middle of repairs, and sources that change under running jobs.

Writes one JSON line per run to `.sluice/fault/report.jsonl` and ends with a summary.
SLUICE_FAULT_RUNS (default 40), SLUICE_FAULT_LOGS (default 200, of tables that follow a
log), SLUICE_FAULT_REPAIRS (default 4, each of every kind
of repair at once), SLUICE_FAULT_SCHEDULES (default 500) and SLUICE_FAULT_CHAINS
(default 1,000,000, of readers and writers of one chain) say how many,
SLUICE_FAULT_SEED where seeds begin (3000: schedules of all acts over whole jobs). A
failed run prints its victim, repair or schedule, and its seed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tests.fault import chain_model, hostile, log_nemesis, nemesis, repairs
from tests.hostile.schedules import WHOLE_JOBS_FROM
from tests.product import Product, manage

REPORT = Path(".sluice/fault/report.jsonl")


def main() -> int:
    first = int(os.environ.get("SLUICE_FAULT_SEED", str(WHOLE_JOBS_FROM)))
    runs = int(os.environ.get("SLUICE_FAULT_RUNS", "40"))
    logs = int(os.environ.get("SLUICE_FAULT_LOGS", "200"))
    times = int(os.environ.get("SLUICE_FAULT_REPAIRS", "4"))
    schedules = int(os.environ.get("SLUICE_FAULT_SCHEDULES", "500"))
    chains = int(os.environ.get("SLUICE_FAULT_CHAINS", "1000000"))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    done: list[dict[str, Any]] = []
    with REPORT.open("w") as lines:
        for facts in chain(
            _products(first, runs, logs), _others(first, times, schedules, chains)
        ):
            done.append(facts)
            lines.write(json.dumps(facts) + "\n")
            lines.flush()
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()
    failed = sum("error" in facts for facts in done)
    cut = sum(facts.get("had_ended") is False for facts in done)
    sys.stdout.write(
        f"{len(done)} runs, {failed} failed; {cut} repairs were killed before their"
        f" end; report in {REPORT}\n"
    )
    if played := [facts for facts in done if "hostile" in facts]:
        sys.stdout.write(hostile.summary(played))
    return 1 if failed else 0


def _others(
    first: int, times: int, schedules: int, chains: int
) -> Iterator[dict[str, Any]]:
    if chains:
        yield chain_model.campaign(first, chains)
    if times:
        home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
        with repairs.bench_of("repairs", home) as bench:
            for seed in range(first, first + times):
                yield from repairs.run(bench, seed)
    if schedules:
        home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
        yield from hostile.run(home, first, schedules)


def _products(first: int, runs: int, logs: int) -> Iterator[dict[str, Any]]:
    """Runs against one running product."""
    if not runs + logs:
        return
    home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        product = Product(home=home, connection={})
        product.reload()
        for index in range(runs):
            yield _one(
                nemesis.run, product, _turn(nemesis.VICTIMS, index), first + index
            )
        if logs:
            log_nemesis.prepare(product)
        for index in range(logs):
            victim = _turn(log_nemesis.VICTIMS, index)
            yield _one(log_nemesis.run, product, victim, first + index)
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))


def _turn(victims: Sequence[str], index: int) -> str:
    return victims[index % len(victims)]


def _one(
    run: Callable[[Product, str, int], dict[str, Any]],
    product: Product,
    victim: str,
    seed: int,
) -> dict[str, Any]:
    start = time.monotonic()
    try:
        facts = run(product, victim, seed)
    except AssertionError as error:
        return {"victim": victim, "seed": seed, "error": str(error)[:2000]}
    return {**facts, "seconds": round(time.monotonic() - start, 1)}


if __name__ == "__main__":
    sys.exit(main())
