"""`make soak`: one product for SLUICE_SOAK_ROUNDS (80, about eight hours) with everything
at once and nothing killed. What grows without an end shows by then.

In each round writers change the followed tables of a PostgreSQL and a MariaDB, clients
ask the gateway and REST, a table is compacted or resynced. Then the writers rest until
the lake equals the sources, and everything that could grow is counted. A line of JSON
a round goes to `.sluice/fault/soak.jsonl`; the end compares a late round with an early.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import psutil

from tests.fault import log_nemesis
from tests.processes import family
from tests.product import Product, manage

ROUNDS = int(os.environ.get("SLUICE_SOAK_ROUNDS", "80"))
SEED = int(os.environ.get("SLUICE_FAULT_SEED", "1"))
REPORT = Path(".sluice/fault/soak.jsonl")
# five minutes of changes
STRIKES = 15
# until then JVMs compile and caches fill
WARM_ROUNDS = 3
_MIB = 1 << 20
# Roles below others, which are counted without them.
_INNER = ("driver", "engines", "captures")


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="sluice-soak-"))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        product = Product(home=home, connection={})
        product.reload()
        with log_nemesis.world(product, *log_nemesis.KINDS) as world:
            rounds = soak(world)
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))
    early, late = rounds[min(WARM_ROUNDS, len(rounds) - 1)], rounds[-1]
    sys.stdout.write(f"{len(rounds)} rounds, lake and sources equal after each\n")
    for name, value in late.items():
        sys.stdout.write(f"{name:32} {early.get(name, 0):>12} {value:>12}\n")
    return 0


def soak(world: log_nemesis.World) -> list[dict[str, float]]:
    """What was counted after each round; AssertionError where a row differs."""
    counted: list[dict[str, float]] = []
    with REPORT.open("w") as lines:
        for seed in range(SEED, SEED + ROUNDS):
            done = log_nemesis.run(world, "nobody", seed, strikes=STRIKES)["done"]
            counted.append(sizes(world.product))
            lines.write(json.dumps({"done": done, **counted[-1]}) + "\n")
            lines.flush()
    return counted


def sizes(product: Product) -> dict[str, float]:
    lake = Path(product.connection["lake"])
    folders = {"metadata": product.home / "pg", "chains": lake / "_sluice" / "log"}
    folders |= {name: product.home / name for name in ("logs", "run", "results")}
    found = _of_processes(product)
    for name, folder in folders.items():
        files = [path for path in folder.rglob("*") if path.is_file()]
        found[f"{name}, files"] = len(files)
        found[f"{name}, MiB"] = round(sum(map(_size, files)) / _MIB, 1)
    timelines = lake.glob("*/*/.hoodie/timeline")
    found["longest timeline, files"] = max(len(list(t.iterdir())) for t in timelines)
    found["lake, files"] = sum(1 for path in lake.rglob("*") if path.is_file())
    return found


def _of_processes(product: Product) -> dict[str, float]:
    """Memory, open files and threads, by role with what is below it and has no role of
    its own."""
    pids = product.reload()["pids"]
    roles = [*_INNER, *pids.keys() - {"supervisor", *_INNER}]
    found: dict[str, float] = {}
    seen: set[psutil.Process] = set()
    for role in roles:
        leaders = pids[role] if isinstance(pids[role], list) else [pids[role]]
        own = {one for pid in leaders for one in family(pid)} - seen
        seen |= own
        held = [_held(one) for one in own]
        for place, what in enumerate(("MiB", "open files", "threads")):
            found[f"{role}, {what}"] = round(sum(each[place] for each in held))
    return dict(sorted(found.items()))


def _held(process: psutil.Process) -> tuple[float, int, int]:
    try:
        memory = process.memory_full_info().uss / _MIB
        return memory, process.num_fds(), process.num_threads()
    except psutil.NoSuchProcess:
        return 0.0, 0, 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
