"""Whole rows or partial ones: what a NULL in a changed row does to the lake's row."""

from __future__ import annotations

from core.errors import InvalidRequest
from ingest.planning.facts import Choices, Conditions, TableFacts
from ingest.planning.plan import Proposal


def propose_updates(
    facts: TableFacts, choices: Choices, conditions: Conditions
) -> Proposal:
    """ "full" unless chosen; InvalidRequest for a table that has no updates at all."""
    if choices.updates == "partial" and conditions.capture == "snapshot":
        raise InvalidRequest(
            f"{facts.source_name} is loaded once, so it has no partial updates",
            code="invalid_updates",
            hint="choose capture 'timestamp', or leave 'updates' out",
            facts={"field": "updates", "table": facts.source_name},
        )
    if choices.updates == "partial":
        reason = "chosen: a NULL in a changed row leaves the value in the lake"
        return Proposal("partial", reason, is_chosen=True, choices=("full",))
    return Proposal(
        "full",
        "a changed row replaces the lake's row whole, NULLs included",
        is_chosen=choices.updates == "full",
        choices=("partial",) if conditions.capture == "timestamp" else (),
    )


def what_partial_means() -> tuple[str, ...]:
    """In sentences for people, told before they approve."""
    return (
        "partial updates: a column that is NULL in a changed row keeps the value it "
        "has in the lake, so a sync never sets a column to NULL",
        "partial updates: columns count as wholes, an array is replaced or kept; a "
        "value that has no form in the lake counts as NULL",
        "partial updates: a row that is deleted and inserted again at the source "
        "keeps its old values where the new row has NULL",
        "partial updates: a resync takes the rows as the source has them then, NULLs "
        "too, and what was kept is gone; the choice is fixed for the table's life",
    )
