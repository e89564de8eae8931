"""What a trial's refusal tells of an expression."""

from __future__ import annotations

import pytest

from catalog.access.rule_trial import about_expression

COLUMN = "`spark_catalog`.`demo`.`products`.`id`"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "`no` cannot be resolved. Did you mean one of the following?"
            f" [`_sluice_one`.`_sluice_one`, {COLUMN}].; line 2 pos 0",
            "`no` cannot be resolved. Did you mean one of the following?"
            " [`demo`.`products`.`id`].",
        ),
        (
            f"Did you mean [{COLUMN}, `_sluice_one`.`_sluice_one`].; line 2 pos 0",
            "Did you mean [`demo`.`products`.`id`].",
        ),
        (
            "Syntax error at or near ')'.(line 3, pos 0)\n\n== SQL ==\nEXPLAIN SELECT"
            " 1 FROM `demo`.`products` JOIN (SELECT 1 AS `_sluice_one`)\n---^^^\n",
            "Syntax error at or near ')'.",
        ),
    ],
)
def test_it_is_of_the_expression_and_not_of_the_trial(said: str, told: str) -> None:
    assert about_expression(said) == told
