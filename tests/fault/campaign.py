"""`make fault`: many seeds over all victims against one running product, drivers
killed in the middle of repairs, and sources that change under running jobs.

Writes one JSON line per run to `.sluice/fault/report.jsonl` and ends with a summary.
SLUICE_FAULT_RUNS (default 40), SLUICE_FAULT_LOGS (default 200, of tables that follow the
logs of a PostgreSQL and a MariaDB at once), SLUICE_FAULT_READERS (default 200, of readers
alone, each of both kinds), SLUICE_FAULT_REPAIRS (default 4, each of every kind
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
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

from tests.fault import chain_model, hostile, log_nemesis, log_readers, nemesis, repairs
from tests.hostile.schedules import WHOLE_JOBS_FROM
from tests.product import Product, manage
from tests.small_disk import SmallDisk, may_mount, small_disk

REPORT = Path(".sluice/fault/report.jsonl")


def main() -> int:
    first = int(os.environ.get("SLUICE_FAULT_SEED", str(WHOLE_JOBS_FROM)))
    runs = int(os.environ.get("SLUICE_FAULT_RUNS", "40"))
    logs = int(os.environ.get("SLUICE_FAULT_LOGS", "200"))
    readers = int(os.environ.get("SLUICE_FAULT_READERS", "200"))
    times = int(os.environ.get("SLUICE_FAULT_REPAIRS", "4"))
    schedules = int(os.environ.get("SLUICE_FAULT_SCHEDULES", "500"))
    chains = int(os.environ.get("SLUICE_FAULT_CHAINS", "1000000"))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    done: list[dict[str, Any]] = []
    with REPORT.open("w") as lines:
        for facts in chain(
            _products(first, runs, logs),
            _others(first, readers, times, schedules, chains),
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
    first: int, readers: int, times: int, schedules: int, chains: int
) -> Iterator[dict[str, Any]]:
    if readers:
        home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
        with log_readers.servers(home) as reads:
            for index, read in product(range(readers), reads):
                victim = _turn(read.victims, index)
                run = partial(log_readers.run, home=home)
                yield _one(run, read, victim, first + index)
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
    with _home() as (home, disk):
        running = Product(home=home, connection={})
        running.reload()
        for index in range(runs):
            yield _one(
                nemesis.run, running, _turn(nemesis.VICTIMS, index), first + index
            )
        if logs:
            kinds = log_nemesis.KINDS
            with log_nemesis.world(running, *kinds, disk=disk) as world:
                for index in range(logs):
                    victim = _turn(world.victims, index)
                    yield _one(log_nemesis.run, world, victim, first + index)


@contextmanager
def _home() -> Iterator[tuple[Path, SmallDisk | None]]:
    """A product that runs, its chains on a small disk where one may be mounted."""
    home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
    with ExitStack() as stack:
        disk = None
        if may_mount():
            chains = home / "lake" / "_sluice" / "log"
            disk = stack.enter_context(small_disk(chains, "1g"))
        stack.callback(manage, home, "quickstart", "--stop", "--home", str(home))
        manage(home, "quickstart", "--home", str(home), "--detach")
        yield home, disk


def _turn(victims: Sequence[str], index: int) -> str:
    return victims[index % len(victims)]


def _one(
    run: Callable[..., dict[str, Any]], world: Any, victim: str, seed: int
) -> dict[str, Any]:
    start = time.monotonic()
    try:
        facts = run(world, victim=victim, seed=seed)
    except AssertionError as error:
        return {"victim": victim, "seed": seed, "error": str(error)[:2000]}
    return {**facts, "seconds": round(time.monotonic() - start, 1)}


if __name__ == "__main__":
    sys.exit(main())
