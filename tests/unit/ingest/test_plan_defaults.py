"""What is wanted for many tables: each takes what it can have."""

from __future__ import annotations

import pytest

from ingest.planning.defaults import PlanDefaults, fitting, plan_with_defaults, replaced
from ingest.planning.facts import ROW_HASH, Choices, Conditions, Target
from tests.unit.ingest.test_planning import ID, PLAIN_ID, UPDATED, column, facts

NOTE = column("note", "string")
ORDERS = facts(ID, UPDATED, NOTE, column("flag", "boolean"))
KEYLESS = facts(PLAIN_ID, NOTE)


@pytest.mark.parametrize(
    ("choices", "defaults", "expected"),
    [
        (
            Choices(),
            PlanDefaults(cursors=("mtime", "updated_at")),
            {"cursor": "updated_at"},
        ),
        (Choices(), PlanDefaults(cursors=("note", "mtime")), {"cursor": None}),
        (
            Choices(cursor="note"),
            PlanDefaults(cursors=("updated_at",)),
            {"cursor": "note"},
        ),
        (
            Choices(),
            PlanDefaults(exclude_columns=("note", "id", "nope", "updated_at")),
            {"exclude_columns": ("note", "updated_at")},
        ),
        (
            Choices(),
            PlanDefaults(cursors=("updated_at",), exclude_columns=("updated_at",)),
            {"exclude_columns": ()},
        ),
        (Choices(), PlanDefaults(partition_by=("note",)), {"partition_by": ("note",)}),
        (Choices(), PlanDefaults(partition_by=("day",)), {"partition_by": ()}),
        (Choices(), PlanDefaults(partition_by=("flag",)), {"partition_by": ()}),
        (Choices(buckets=3), PlanDefaults(buckets=9), {"buckets": 3}),
        (Choices(), PlanDefaults(row_hash=True), {"record_key": None}),
    ],
)
def test_what_does_not_fit_is_passed_over(choices, defaults, expected) -> None:
    made = fitting(ORDERS, choices, defaults)
    assert {name: getattr(made, name) for name in expected} == expected


def test_a_table_without_key_is_keyed_by_its_row() -> None:
    assert (
        fitting(KEYLESS, Choices(), PlanDefaults(row_hash=True)).record_key == ROW_HASH
    )


@pytest.mark.parametrize(
    ("table", "choices", "capture", "is_blocked"),
    [
        (ORDERS, Choices(), "timestamp", False),
        (KEYLESS, Choices(), "snapshot", False),
        (facts(ID, NOTE), Choices(), "snapshot", False),
        (KEYLESS, Choices(capture="timestamp"), "timestamp", True),
    ],
)
def test_what_cannot_be_kept_fresh_is_loaded_once(
    table, choices, capture, is_blocked
) -> None:
    found, plan = plan_with_defaults(
        table,
        choices,
        PlanDefaults(load_once=True),
        Target("shop", "orders", "/lake/shop/orders"),
        lambda way: Conditions(capture=way),
        "timestamp",
    )
    assert (found, bool(plan.blocked)) == (capture, is_blocked)


def test_a_later_wish_goes_before_what_was_chosen_for_one() -> None:
    had = Choices(cursor="a", buckets=3, exclude_columns=("note",))
    anew = fitting(
        ORDERS, replaced(had, PlanDefaults(buckets=9)), PlanDefaults(buckets=9)
    )
    assert (anew.buckets, anew.cursor, anew.exclude_columns) == (9, "a", ("note",))
