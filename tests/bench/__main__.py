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
    for name in ("ingest", "gateway"):
        done = subprocess.run(
            [sys.executable, "-m", f"tests.bench.{name}_bench"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        is_good = is_good and done.returncode == 0
        if done.returncode:
            continue
        (TARGET / f"{name}.json").write_text(done.stdout)
        for figure, value in json.loads(done.stdout).items():
            sys.stdout.write(f"{name:8} {figure:40} {value}\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
