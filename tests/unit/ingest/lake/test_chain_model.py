"""A slice of the schedules of `tests.fault.chain_model`; `make fault` runs a million."""

from __future__ import annotations

import pytest

from tests.fault.chain_model import RULES, first_failure

# Where the search begins for rules that few schedules need.
BEGIN = {
    "claim": 2_030,
    "gap": 1_570,
    "back": 580,
    "told": 250,
    "kept": 250,
    "seen": 170,
}


def test_no_schedule_loses_anything() -> None:
    assert first_failure(range(200)) is None


# A campaign found them: the end was read before a beginning that had moved for it.
@pytest.mark.parametrize("seed", [83_461, 198_519, 377_812])
def test_a_schedule_that_was_found_wrong(seed: int) -> None:
    assert first_failure(range(seed, seed + 1)) is None


@pytest.mark.parametrize("rule", RULES)
def test_without_any_of_the_rules_some_schedule_fails(rule: str) -> None:
    begin = BEGIN.get(rule, 0)
    assert first_failure(range(begin, begin + 4_000), broken=frozenset([rule]))
