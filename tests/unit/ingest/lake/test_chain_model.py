"""A slice of the schedules of `tests.fault.chain_model`; `make fault` runs a million."""

from __future__ import annotations

import pytest

from tests.fault.chain_model import RULES, first_failure

# A schedule that each rule is needed for; who changes the chain may move it elsewhere,
# then it is looked for: `first_failure` says where it is now.
NEEDED_BY = {
    "overwrite": 0,
    "race": 4,
    "collected": 169,
    "claim": 5_260,
    "orphans": 4,
    "order": 2,
    "needed": 1,
    "kept": 54,
    "unnamed": 3_034,
    "asked": 16_493,
    "gap": 643,
    "told": 200,
    "cut": 0,
    "seen": 178,
    "at": 34,
    "back": 2_895,
    "anew": 33,
    "fence": 14,
    "remembered": 54,
}


def test_no_schedule_loses_anything() -> None:
    assert first_failure(range(200)) is None


# A campaign found them: the end was read before a beginning that had moved for it.
@pytest.mark.parametrize("seed", [83_461, 198_519, 377_812])
def test_a_schedule_that_was_found_wrong(seed: int) -> None:
    assert first_failure(range(seed, seed + 1)) is None


@pytest.mark.parametrize("rule", RULES)
def test_without_any_of_the_rules_some_schedule_fails(rule: str) -> None:
    broken, seed = frozenset([rule]), NEEDED_BY[rule]
    assert first_failure(range(seed, seed + 1), broken=broken) or first_failure(
        range(4_000), broken=broken
    )
