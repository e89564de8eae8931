"""Which records a list of wanted tables needs, by what the stream says already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.contract.following import FollowTable
from ingest.contract.segments import Control, StreamTable, state_of
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.follower.controls import (
    all_deferred,
    followed,
    is_new_load,
    needed_controls,
)

SPEC = TableSpec(7, "public", "t", "db", "t", "/lake/t", "", (), ("id",))

ADDED = StreamTable("added")
CUT = StreamTable("cut", cut=4, load="L")
FINISHED = StreamTable("finished", cut=4, load="L", at="p")
DEFERRED = StreamTable("deferred", cut=4, load="L")
REMOVED = StreamTable("removed", cut=4, load="L")


def wanted(**more: object) -> FollowTable:
    return FollowTable(SPEC, **more)  # type: ignore[arg-type]


def cut(load: str) -> Control:
    return Control("cut", 7, load=load, identity="t")


IS_ADDED = Control("added", 7)
CASES: dict[
    str, tuple[FollowTable | None, StreamTable | None, str, list[Control]]
] = {
    "nothing is known": (wanted(), None, "", [IS_ADDED]),
    "with its load": (wanted(load="L"), None, "", [IS_ADDED, cut("L")]),
    "its load begins": (wanted(load="L"), ADDED, "", [cut("L")]),
    "its load runs": (wanted(load="L"), CUT, "", []),
    "its load is there": (
        wanted(load="L", finished_at="p"),
        CUT,
        "",
        [Control("finished", 7, at="p")],
    ),
    "is followed": (wanted(load="L", finished_at="p"), FINISHED, "", []),
    "another load begins": (wanted(load="M"), FINISHED, "", [cut("M")]),
    "another while one runs": (wanted(load="M"), CUT, "", [cut("M")]),
    "is deferred": (
        wanted(load="L", deferred="late"),
        FINISHED,
        "",
        [Control("deferred", 7, reason="late")],
    ),
    "was deferred": (wanted(load="L", deferred="late"), DEFERRED, "", []),
    "deferred for one who is not known": (wanted(deferred="late"), None, "", []),
    "a problem": (wanted(load="L"), CUT, "gone", [Control("deferred", 7, reason="gone")]),
    "a problem before all": (wanted(load="L"), None, "gone", []),
    "a problem comes first": (
        wanted(load="L", deferred="late"),
        CUT,
        "gone",
        [Control("deferred", 7, reason="gone")],
    ),
    "a problem and a new load": (wanted(load="M"), DEFERRED, "gone", []),
    "the problem is over": (wanted(load="L"), DEFERRED, "", []),
    "the problem is over and a load begins": (wanted(load="M"), DEFERRED, "", [cut("M")]),
    "is removed": (None, FINISHED, "", [Control("removed", 7)]),
    "was removed": (None, REMOVED, "", []),
    "comes back": (wanted(load="L"), REMOVED, "", [IS_ADDED, cut("L")]),
    "comes back with a problem": (wanted(load="L"), REMOVED, "gone", []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_records_a_list_needs(case: str) -> None:
    one, state, problem, expected = CASES[case]
    tables = () if one is None else (one,)
    known = {} if state is None else {7: state}
    problems = {7: problem} if problem else {}
    needed = needed_controls(tables, known, problems, {7: "t"})
    assert list(needed) == expected
    # and once they are there, none
    known = state_of(known, ((9, control) for control in needed))
    assert needed_controls(tables, known, problems, {7: "t"}) == ()


@pytest.mark.parametrize(
    ("load", "state", "expected"),
    [("", None, False), ("L", None, True), ("L", CUT, False), ("M", FINISHED, True)],
)
def test_what_a_new_load_is(
    load: str, state: StreamTable | None, expected: bool
) -> None:
    known = {} if state is None else {7: state}
    assert is_new_load(wanted(load=load), known) is expected


def test_what_is_told_of_tables() -> None:
    told = followed((wanted(),), {}, {7: "gone"}, {7: ("n",)})
    (one,) = told
    assert (one.table_id, one.state, one.problem, one.new_columns) == (
        7,
        "",
        "gone",
        ("n",),
    )
    assert followed((wanted(),), {7: CUT, 8: CUT}, {}, {})[0].state == "cut"
    unread = wanted(deferred="its plan is spoilt", is_unread=True)
    assert followed((unread,), {7: CUT}, {}, {})[0].problem == "its plan is spoilt"


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (wanted(load="L"), "are missing"),
        (wanted(load="M"), ""),
        (wanted(load="L", deferred="late"), ""),
    ],
)
def test_who_does_not_know_of_a_deferral_is_told(
    one: FollowTable, expected: str
) -> None:
    """Its host may have died before it knew."""
    problem = followed((one,), {7: DEFERRED}, {}, {})[0].problem
    assert (expected in problem, bool(problem)) == (True, bool(expected))


def test_a_column_for_which_a_table_was_deferred_is_named() -> None:
    column = ColumnSpec("n", "n", "integer", "int")
    one = FollowTable(replace(SPEC, columns=(column,)), load="L")
    lacks = replace(DEFERRED, left=("n", "other"))
    problem = followed((one,), {7: lacks}, {}, {})[0].problem
    assert "values of n are missing" in problem


def test_all_are_deferred_once() -> None:
    known = {1: ADDED, 2: CUT, 3: FINISHED, 4: DEFERRED, 5: REMOVED}
    made = all_deferred(known, "lost")
    assert [one.table_id for one in made] == [1, 2, 3]
    assert all_deferred(state_of(known, ((9, one) for one in made)), "lost") == ()


def test_columns_that_rows_do_not_have_are_recorded_until_the_next_cut() -> None:
    column = ColumnSpec("n", "n", "integer", "int")
    has_n = replace(SPEC, columns=(column,))

    def needed(
        one: FollowTable, state: StreamTable, **log: dict[int, tuple[str, ...]]
    ) -> list[Control]:
        return list(needed_controls([one], {7: state}, {}, {}, **log))

    # a load lacks what its plan lacks, though the rows have it
    made = needed(wanted(load="M"), FINISHED, new_columns={7: ("n",)})
    assert made[1:] == [Control("left", 7, columns=("n",))]
    made = needed(wanted(load="L"), FINISHED, new_columns={7: ("n",)})
    assert made == []
    # and rows lack what is left
    made = needed(wanted(load="L"), FINISHED, left={7: ("n", "m")})
    assert made == [Control("left", 7, columns=("m", "n"))]
    (state,) = state_of({7: FINISHED}, [(9, made[0])]).values()
    assert (state.state, state.left) == ("finished", ("m", "n"))
    assert needed(wanted(load="L"), state, left={7: ("n",)}) == []
    # a plan that has it needs another load
    (deferred,) = needed(FollowTable(has_n, load="L"), state)
    assert (deferred.kind, "values of n" in deferred.reason) == ("deferred", True)
    (cut,) = needed(FollowTable(has_n, load="M"), state)
    assert (cut.kind, state.after(cut, 10).left) == ("cut", ())


def test_what_identifies_a_table_grows_with_its_plan() -> None:
    state = replace(FINISHED, identity="t")
    (made,) = needed_controls([wanted(load="L")], {7: state}, {}, {7: "t, and n"})
    assert state.after(made, 9) == replace(state, identity="t, and n")


def test_columns_that_are_left_out_are_not_told() -> None:
    one = FollowTable(replace(SPEC, left_out=("out",)))
    assert followed([one], {}, {}, {7: ("n", "out")})[0].new_columns == ("n",)
