"""`make fault`: many seeds over all victims against one running product.

Writes one JSON line per run to `.sluice/fault/report.jsonl` and ends with a summary.
Runs: SLUICE_FAULT_RUNS (default 40). A failed run prints its victim and seed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fault import nemesis
from tests.product import Product, manage


def main() -> int:
    runs = int(os.environ.get("SLUICE_FAULT_RUNS", "40"))
    first = int(os.environ.get("SLUICE_FAULT_SEED", "1"))
    report = Path(".sluice/fault/report.jsonl")
    report.parent.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
    failed = 0
    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        product = Product(home=home, connection={})
        product.reload()
        with report.open("w") as lines:
            for index in range(runs):
                victim = nemesis.VICTIMS[index % len(nemesis.VICTIMS)]
                facts = _one(product, victim, first + index)
                failed += "error" in facts
                lines.write(json.dumps(facts) + "\n")
                lines.flush()
                sys.stdout.write(json.dumps(facts) + "\n")
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))
    sys.stdout.write(f"{runs} runs, {failed} failed; report in {report}\n")
    return 1 if failed else 0


def _one(product: Product, victim: str, seed: int) -> dict[str, object]:
    start = time.monotonic()
    try:
        facts = nemesis.run(product, victim, seed)
    except AssertionError as error:
        return {"victim": victim, "seed": seed, "error": str(error)[:2000]}
    return {**facts, "seconds": round(time.monotonic() - start, 1)}


if __name__ == "__main__":
    sys.exit(main())
