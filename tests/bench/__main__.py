"""`make bench`: each bench in a process of its own, figures into .sluice/bench/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TARGET = Path(".sluice", "bench")


def main() -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    is_good = True
    for name in (
        "catalog",
        "log",
        "ingest",
        "light",
        "follow",
        "upkeep",
        "amplification",
        "verify",
        "gateway",
        "tpch",
    ):
        target = TARGET / f"{name}.json"
        command = [sys.executable, "-m", f"tests.bench.{name}_bench", str(target)]
        if subprocess.run(command, check=False).returncode:
            is_good = False
            continue
        for figure, value in json.loads(target.read_text()).items():
            sys.stdout.write(f"{name:8} {figure:40} {value}\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
