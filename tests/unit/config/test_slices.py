"""Each long test is in one slice, and each commit takes one."""

from __future__ import annotations

import pytest

from config.toolchain.slices import ALL, NONE, SLICES, Slice, parse, slice_of_commit

TESTS = [f"tests/fault/test_kill.py::test_it[{n}]" for n in range(200)]
EVERY = [Slice(n, SLICES) for n in range(1, SLICES + 1)]


def test_each_test_is_in_one_slice_and_none_is_empty() -> None:
    taken = [[test for test in TESTS if one.takes(test)] for one in EVERY]
    assert sorted(test for tests in taken for test in tests) == sorted(TESTS)
    assert all(taken)


def test_all_takes_all_and_none_takes_none() -> None:
    assert all(ALL.takes(test) for test in TESTS)
    assert not any(NONE.takes(test) for test in TESTS)


@pytest.mark.parametrize("one", [NONE, ALL, *EVERY])
def test_what_is_said_is_understood(one: Slice) -> None:
    assert parse(str(one)) == one


@pytest.mark.parametrize("text", ["", "some", "0/12", "13/12", "3", "3/", "-1/4"])
def test_no_slice(text: str) -> None:
    with pytest.raises(ValueError, match="is no slice: none, all, or one as 3/48"):
        parse(text)


def test_commits_take_every_slice_and_the_same_one_each_time() -> None:
    commits = [f"{n:08x}{'0' * 32}" for n in range(SLICES)]
    assert {slice_of_commit(one).number for one in commits} == set(range(1, SLICES + 1))
    assert slice_of_commit(commits[3]) == slice_of_commit(commits[3])
    assert slice_of_commit("") == Slice(1, SLICES)
