"""The oracle of the hostile-source tests finds what it is there for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import ErrorFact, JobReport
from ingest.contract.table import ColumnSpec, TableSpec
from tests.hostile import behaviour, oracle
from tests.hostile.acts import ACTS, MOVES, SERVER
from tests.hostile.history import State
from tests.hostile.play import JOBS
from tests.hostile.schedules import (
    KINDS,
    OTHERS,
    SLICE,
    STATEMENTS,
    WHOLE_JOBS_FROM,
    plan_of,
)
from tests.hostile.shapes import CANNOT, SHAPES

TABLE = TableSpec(
    1,
    "public",
    "o",
    "shop",
    "o",
    "/lake/o",
    "/lake/staging",
    tuple(ColumnSpec(n, n, "int", t) for n, t in (("id", "int"), ("at", "timestamp"))),
    ("id",),
    cursor="at",
)


def state(**rows: Any) -> State:
    """a=1 → key a with the value 1; a list is several rows of one key."""
    return {
        (key,): [
            {"id": key, "at": str(at)} for at in (v if isinstance(v, list) else [v])
        ]
        for key, v in rows.items()
    }


@pytest.mark.parametrize(
    ("lake", "known", "is_right"),
    [
        (state(a=1), [state(a=1)], True),
        (state(a=1), [state(a=1), state(a=2)], True),
        (state(a=2), [state(a=1), state(a=2)], True),
        (state(a=3), [state(a=1), state(a=2)], False),
        (state(), [state(a=1), state()], True),
        (state(), [state(a=1), state(a=2)], False),
        (state(a=1, b=1), [state(a=1)], False),
        (state(a=[1, 1]), [state(a=1)], False),
    ],
)
def test_damage_is_what_no_moment_explains(
    lake: State, known: list[State], is_right: bool
) -> None:
    assert (oracle.damage(lake, known) == []) is is_right


@pytest.mark.parametrize(
    ("lake", "source", "gone", "is_right"),
    [
        (state(a=1), state(a=1), set(), True),
        (state(a=1), state(a=2), set(), False),
        (state(), state(a=1), set(), False),
        (state(a=1, b=1), state(a=1), set(), False),
        (state(a=1, b=1), state(a=1), {("b",)}, True),
        (state(a=1), state(a=[1, 2]), set(), False),
        (state(a=[1, 1]), state(a=1), set(), False),
    ],
)
def test_a_difference_is_told_but_for_deleted_keys(
    lake: State, source: State, gone: set[Any], is_right: bool
) -> None:
    assert (oracle.difference(lake, source, gone) == []) is is_right


def test_a_column_that_the_source_lost_is_not_compared() -> None:
    assert oracle.difference(state(a=1), {("a",): [{"id": "a"}]}, set()) == []


@pytest.mark.parametrize(
    ("verdict", "known", "is_right"),
    [
        ("equal", [state(a=1)], True),
        ("equal", [state(a=2)], False),
        # newer than the position: no sync was meant to have brought it
        ("equal", [state(a=9_000_000)], True),
        ("different", [state(a=1)], False),
        ("different", [state(a=1), state()], True),
    ],
)
def test_a_verdict_is_of_some_moment(
    verdict: str, known: list[State], is_right: bool
) -> None:
    facts = {"verdict": verdict, "position": "1970-01-01T00:00:08.000000Z"}
    report = JobReport("j", 1, "succeeded", facts=facts)
    found = oracle.false_verdict(report, TABLE, state(a=1), known)
    assert (found == []) is is_right


@pytest.mark.parametrize(
    ("code", "is_right"),
    [("source_locked", True), ("repeated_keys", True), ("unexpected", False)],
)
def test_a_failure_has_a_name(code: str, is_right: bool) -> None:
    report = JobReport("j", 1, "transient", error=ErrorFact(code, "why"))
    assert (oracle.unnamed_failure(report) == []) is is_right


def test_a_seed_is_one_plan() -> None:
    plans = [plan_of(seed) for seed in range(200)]
    assert plans == [plan_of(seed) for seed in range(200)]
    assert {(p.kind, p.job) for p in plans} == {(k, j) for k in KINDS for j in JOBS}


EVERYTHING = {(k, act) for k in KINDS for act in ACTS if ACTS[act].script(k, "t")}
ON_OTHER_SERVERS = {act.name for act in (*SERVER, *MOVES)}


def acts_of(seeds: Iterable[int]) -> set[tuple[str, str]]:
    return {(plan.kind, act) for plan in map(plan_of, seeds) for act in plan.acts}


def test_the_seeds_of_runs_play_every_act() -> None:
    kept = {(k, act) for k, act in EVERYTHING if act not in ON_OTHER_SERVERS}
    assert acts_of((*SLICE, *OTHERS)) == kept
    campaign = range(WHOLE_JOBS_FROM, WHOLE_JOBS_FROM + 500)
    assert acts_of(campaign) == EVERYTHING


def test_whole_jobs_are_acted_on_to_their_end() -> None:
    plans = [plan_of(WHOLE_JOBS_FROM + n) for n in range(200)]
    latest = max(place for p in plans if p.job == "verify" for place, _ in p.steps)
    assert latest > STATEMENTS["postgresql"]["verify"] * 1.9


def test_every_odd_table_is_there_for_both_kinds_or_says_why_not() -> None:
    there = {(shape.kind, shape.name) for shape in SHAPES}
    assert not there & CANNOT.keys()
    names = {name for _, name in there | CANNOT.keys()}
    assert there | CANNOT.keys() == {(kind, name) for kind in KINDS for name in names}


def test_every_act_is_in_the_table_of_ends_once() -> None:
    named = [act for event in behaviour.EVENTS for act in event.acts]
    assert sorted(named) == sorted(ACTS)


def test_an_end_that_no_event_explains_is_a_violation() -> None:
    assert behaviour.unexpected("sync", ("writes",), "succeeded") == []
    assert behaviour.unexpected("sync", ("writes", "cut"), "source_unreachable") == []
    assert behaviour.unexpected("sync", ("writes",), "source_locked") != []


def test_the_page_on_reading_has_the_table_of_ends() -> None:
    page = Path("docs/reading.md").read_text()
    assert "\n".join(behaviour.lines()) in page
