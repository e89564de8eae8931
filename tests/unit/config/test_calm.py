"""No test asks how long something took, and none waits by a limit of its own."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CLOCKS = {"monotonic", "perf_counter", "time", "process_time"}
# what measures, the one place that waits, and what finds out that actors wait for
# each other: there nobody moving for long is the event; and the doubles, whose
# statements end after a chosen time
FREE = ("bench", "siege", "waiting.py", "hostile", "doubles")
LIMIT = "LIMIT_SECONDS"
WAITS = {"join", "wait", "result", "wait_for", "wait_procs"}
# what looks again and again, or shows that something does not end
LONGEST_LOOK = 1.0


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


@functools.cache
def nodes_of(text: str) -> list[ast.Compare | ast.Call]:
    """Those that are looked at; to parse all files takes longer than to look."""
    found = ast.walk(ast.parse(text))
    return [one for one in found if isinstance(one, ast.Compare | ast.Call)]


def judgements(text: str) -> list[int]:
    """Lines that compare a clock's reading with something, in a file that does not
    wait by the common limit."""
    if LIMIT in text:
        return []
    compared = (node for node in nodes_of(text) if isinstance(node, ast.Compare))
    return [node.lineno for node in compared if reads_clock(node)]


def own_limits(text: str) -> list[int]:
    """Lines that wait for a thread, a process or a task by a number of their own."""
    calls = (node for node in nodes_of(text) if isinstance(node, ast.Call))
    return [
        call.lineno
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in WAITS
        and any(
            isinstance(given, ast.Constant)
            and isinstance(given.value, int | float)
            and given.value > LONGEST_LOOK
            for given in [
                *call.args,
                *(each.value for each in call.keywords if each.arg == "timeout"),
            ]
        )
    ]


def found_in(look: Callable[[str], list[int]]) -> dict[str, list[int]]:
    return {
        path.relative_to(ROOT).as_posix(): lines
        for path in files()
        if (lines := look(path.read_text()))
    }


def test_no_test_compares_a_clock() -> None:
    found = found_in(judgements)
    assert found == {}, "wait by tests.waiting; count steps instead of seconds"


def test_no_test_waits_by_a_limit_of_its_own() -> None:
    assert found_in(own_limits) == {}, "LIMIT_SECONDS of tests.waiting is every wait's"


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


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("thread.join(60)", [1]),
        ("process.wait(timeout=9)", [1]),
        ("asyncio.wait_for(done, 5.0)", [1]),
        ("thread.join(LIMIT_SECONDS)", []),
        ("thread.join(0.01)", []),
        ("process.wait()", []),
        ("wait_for(is_there, 'it', pause=2)", []),
        ("','.join('5')", []),
    ],
)
def test_what_counts_as_a_limit_of_its_own(text: str, lines: list[int]) -> None:
    assert own_limits(text) == lines
