"""No test asks how long something took, and none waits by a limit of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CLOCKS = {"monotonic", "perf_counter", "time", "process_time"}
# what measures, the one place that waits, and what finds out that actors wait for
# each other: there nobody moving for long is the event
FREE = ("bench", "siege", "waiting.py", "hostile")
LIMIT = "LIMIT_SECONDS"


def files() -> list[Path]:
    tests = ROOT / "tests"
    found = (path for path in tests.rglob("*.py") if path != Path(__file__))
    return [one for one in found if one.relative_to(tests).parts[0] not in FREE]


def reads_clock(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and isinstance(one.func.value, ast.Name)
        and (one.func.value.id, one.func.attr in CLOCKS) == ("time", True)
        for one in ast.walk(node)
    )


def judgements(text: str) -> list[int]:
    """Lines that compare a clock's reading with something, in a file that does not
    wait by the common limit."""
    if LIMIT in text:
        return []
    tree = ast.parse(text)
    compared = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    return [node.lineno for node in compared if reads_clock(node)]


def test_no_test_compares_a_clock() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in files()
        if (lines := judgements(path.read_text()))
    }
    assert found == {}, "wait by tests.waiting; count steps instead of seconds"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("began = time.monotonic()\nassert time.monotonic() - began < 5", [2]),
        ("while time.monotonic() < end: pass", [1]),
        ("while time.time() < LIMIT_SECONDS: pass", []),
        ("facts['seconds'] = time.monotonic() - began", []),
        ("assert clock.time() < 5", []),
    ],
)
def test_what_counts_as_a_judgement(text: str, lines: list[int]) -> None:
    assert judgements(text) == lines
