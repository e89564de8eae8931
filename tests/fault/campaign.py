"""`make fault`: many seeds over all victims against one running product, drivers
killed in the middle of repairs, and sources that change under running jobs.

Writes one JSON line per run to `.sluice/fault/report.jsonl` and ends with a summary.
SLUICE_FAULT_RUNS (default 40), SLUICE_FAULT_REPAIRS (default 4, each of every kind
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fault import chain_model, hostile, nemesis, repairs
from tests.hostile.schedules import WHOLE_JOBS_FROM
from tests.product import Product, manage

REPORT = Path(".sluice/fault/report.jsonl")


def main() -> int:
    first = int(os.environ.get("SLUICE_FAULT_SEED", str(WHOLE_JOBS_FROM)))
    runs = int(os.environ.get("SLUICE_FAULT_RUNS", "40"))
    times = int(os.environ.get("SLUICE_FAULT_REPAIRS", "4"))
    schedules = int(os.environ.get("SLUICE_FAULT_SCHEDULES", "500"))
    chains = int(os.environ.get("SLUICE_FAULT_CHAINS", "1000000"))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    done: list[dict[str, Any]] = []
    with REPORT.open("w") as lines:
        for facts in _all(first, runs, times, schedules, chains):
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


def _all(
    first: int, runs: int, times: int, schedules: int, chains: int
) -> Iterator[dict[str, Any]]:
    if chains:
        yield chain_model.campaign(first, chains)
    if runs:
        yield from _victims(first, runs)
    if times:
        home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
        with repairs.bench_of("repairs", home) as bench:
            for seed in range(first, first + times):
                yield from repairs.run(bench, seed)
    if schedules:
        home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
        yield from hostile.run(home, first, schedules)


def _victims(first: int, runs: int) -> Iterator[dict[str, Any]]:
    home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        product = Product(home=home, connection={})
        product.reload()
        for index in range(runs):
            victim = nemesis.VICTIMS[index % len(nemesis.VICTIMS)]
            yield _one(product, victim, first + index)
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))


def _one(product: Product, victim: str, seed: int) -> dict[str, Any]:
    start = time.monotonic()
    try:
        facts = nemesis.run(product, victim, seed)
    except AssertionError as error:
        return {"victim": victim, "seed": seed, "error": str(error)[:2000]}
    return {**facts, "seconds": round(time.monotonic() - start, 1)}


if __name__ == "__main__":
    sys.exit(main())
