"""How long the tests of each folder took, and the folders that take longer than agreed.

Every run of pytest writes `.sluice/durations/<folder>.json`; the budgets, in seconds on
two idle cores with all steps of `make test` beside each other, are kept in
`tests/budgets.json`. Up to four processes test at once, so together they may be 3600 s
where the whole is to take 15 minutes. A folder over its budget is named and fails
nothing: how fast a machine is says nothing about the product.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".sluice" / "durations"
BUDGETS = ROOT / "tests" / "budgets.json"
# of all that `make test` runs, without the set-up of the machine
WHOLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Duration:
    """What the tests of a folder took, set-up and tear-down included; seconds."""

    folder: str
    seconds: float
    slowest: tuple[tuple[str, float], ...] = ()


def folder_of(test: str) -> str:
    """`integration-ingest` of `tests/integration/ingest/test_way.py::test_it`."""
    path = Path(test.partition("::")[0])
    return "-".join(path.parts[1:-1][:2])


def save(tests: Mapping[str, float], *, place: Path = FOLDER) -> None:
    """Add what these tests took to the file of their folder; the newest run of a test
    counts."""
    place.mkdir(parents=True, exist_ok=True)
    folders: dict[str, dict[str, float]] = {}
    for test, seconds in tests.items():
        folders.setdefault(folder_of(test), {})[test] = round(seconds, 3)
    for folder, found in folders.items():
        # two steps of one run may write the same folder
        with (place / f"{folder}.json").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            found = {**_tests_in(file.read()), **found}
            file.truncate(0)
            file.write(_text_of(folder, found))


def _tests_in(text: str) -> dict[str, float]:
    try:
        found = json.loads(text)["tests"]
    except (ValueError, KeyError):
        return {}
    return {str(name): float(seconds) for name, seconds in found.items()}


def _text_of(folder: str, tests: Mapping[str, float]) -> str:
    slowest_first = sorted(tests.items(), key=lambda one: -one[1])
    facts = {
        "folder": folder,
        "seconds": round(sum(tests.values()), 1),
        "tests": dict(slowest_first),
    }
    return json.dumps(facts, indent=1) + "\n"


def forget(place: Path = FOLDER) -> None:
    """Begin a run of everything: what tests took before says nothing about it."""
    for path in place.glob("*.json"):
        path.unlink()


def read(place: Path = FOLDER) -> list[Duration]:
    found = []
    for path in sorted(place.glob("*.json")):
        tests = _tests_in(path.read_text())
        slowest = sorted(tests.items(), key=lambda one: -one[1])[:3]
        found.append(Duration(path.stem, sum(tests.values()), tuple(slowest)))
    return found


def read_budgets() -> dict[str, float]:
    return {str(k): float(v) for k, v in json.loads(BUDGETS.read_text()).items()}


def of_the_whole(seconds: float) -> str:
    """The line that ends a run."""
    line = f"-- all of it: {seconds:.0f} s"
    if seconds <= WHOLE_SECONDS:
        return line
    return f"{line}, OVER its BUDGET of {WHOLE_SECONDS:.0f} s on two idle cores"


def over_budget(found: list[Duration], budgets: Mapping[str, float]) -> list[str]:
    """A line for each folder that took longer than its budget, or that has none."""
    lines = []
    for one in found:
        budget = budgets.get(one.folder)
        if budget is not None and one.seconds <= budget:
            continue
        agreed = "has no budget" if budget is None else f"has {budget:.0f} s"
        slowest = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one.slowest)
        lines.append(
            f"OVER BUDGET: tests of {one.folder} took {one.seconds:.0f} s,"
            f" it {agreed} (tests/budgets.json); slowest: {slowest}"
        )
    return lines
