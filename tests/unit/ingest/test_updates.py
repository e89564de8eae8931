"""Whole rows or partial ones, as values: identity, options, plan, request, words."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest

from catalog.schema.types import Column, TableSchema
from core.errors import InvalidRequest
from ingest.api.requests import TableChoices
from ingest.contract.table import Updates
from ingest.lake.hudi.identity import PARTIAL, TableIdentity, drift
from ingest.lake.hudi.options import Operation, WriterFence, write_options
from ingest.maintenance.verdict import Comparison, facts_of, words_for
from ingest.planning.facts import Choices, Conditions, TableFacts, Target
from ingest.planning.plan import CreateTable, plan_from_json, plan_to_json
from ingest.planning.propose import propose_table

IDENTITY = TableIdentity(("id",), 4)
FACTS = TableFacts(
    "public",
    "t",
    TableSchema(
        (
            Column("id", "id", "bigint", "bigint", nullable=False, key=1),
            Column("at", "at", "timestamptz", "timestamp", nullable=False, key=0),
        )
    ),
    source_kind="postgresql",
)


def plan(updates: Updates | None, capture: Any = "timestamp") -> Any:
    return propose_table(
        FACTS,
        Choices(cursor="at" if capture == "timestamp" else None, updates=updates),
        Target("shop", "t", "/lake/shop/t"),
        Conditions(capture),
    )


def test_how_rows_are_updated_is_part_of_the_identity() -> None:
    partial = dataclasses.replace(IDENTITY, partial_update_mode=PARTIAL)
    assert TableIdentity.from_data(partial.to_data()) == partial
    assert len(drift(IDENTITY, partial)) == 1


def test_only_the_load_that_makes_a_table_names_the_payload_class() -> None:
    for mode in ("", PARTIAL):
        identity = dataclasses.replace(IDENTITY, partial_update_mode=mode)
        fence = WriterFence("/f", 1)
        named = {
            operation
            for operation in get_args(Operation)
            if "hoodie.datasource.write.payload.class"
            in write_options(
                identity, name="t", fence=fence, operation=operation, position="{}"
            )
        }
        assert named == ({"bulk_insert"} if mode else set())


@pytest.mark.parametrize(
    ("updates", "value", "is_chosen"),
    [(None, "full", False), ("full", "full", True), ("partial", "partial", True)],
)
def test_a_plan_says_what_a_null_does(
    updates: Updates | None, value: str, is_chosen: bool
) -> None:
    made = plan(updates)
    proposal = made.proposals["updates"]
    assert (proposal.value, proposal.is_chosen) == (value, is_chosen)
    told = [w for w in made.warnings if w.startswith("partial updates: ")]
    assert len(told) == (4 if value == "partial" else 0)
    create = plan_from_json(json.loads(json.dumps(plan_to_json(made)))).step(
        CreateTable
    )
    assert create.updates == value
    assert ("partial updates" in create.summary) == (value == "partial")


def test_a_plan_of_before_has_full_updates() -> None:
    data = plan_to_json(plan(None))
    del data["steps"][0]["updates"]
    assert plan_from_json(data).step(CreateTable).updates == "full"


def test_a_table_that_is_loaded_once_has_no_updates() -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan("partial", "snapshot")
    assert caught.value.facts["field"] == "updates"
    assert plan("full", "snapshot").step(CreateTable).updates == "full"


@pytest.mark.parametrize("value", ["PARTIAL", 1, True, ["full"], {}, ""])
def test_other_words_are_refused(value: object) -> None:
    given = TableChoices(data={"updates": value})
    assert not given.is_valid()
    assert given.errors["updates"][0].code == "invalid_choice"


def test_kept_values_are_no_difference_and_are_told() -> None:
    found = Comparison(5, 5, kept=2)
    assert found.verdict == "equal"
    assert words_for(found, position="P") == (
        "Equal: 5 rows on both sides. Partial updates kept values that are NULL at the"
        " source for 2 keys."
    )
    worse = Comparison(5, 5, different=1, kept=1)
    assert worse.verdict == "different"
    assert words_for(worse, position="P").endswith("NULL at the source for 1 key.")
    facts = facts_of(found, keys={}, instant="1", position="")
    assert facts["kept"] == 2
    assert "kept" not in facts["keys"]
