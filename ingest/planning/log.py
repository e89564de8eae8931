"""Whether a table can be followed by its source's log, and what it sees then. Pure."""

from __future__ import annotations

from catalog.schema.types import Column
from catalog.sources.registry import kind_named
from core.errors import InvalidRequest
from ingest.planning.facts import ROW_HASH, TableFacts
from ingest.planning.plan import Proposal

# Kinds of source whose log is read.
FOLLOWED = frozenset({"postgresql"})


def refuse_unfollowed_kind(facts: TableFacts) -> None:
    """InvalidRequest `not_yet` for sources whose log is not read yet."""
    kind = kind_named(facts.source_kind)
    if kind.family.name not in FOLLOWED:
        raise InvalidRequest(
            f"following the log of {kind.title} comes with a later release",
            code="not_yet",
            hint="use capture 'timestamp' or 'snapshot'",
            facts={"field": "capture", "table": facts.source_name},
        )


def why_not_followed(
    facts: TableFacts, carried: list[Column], proposals: dict[str, Proposal]
) -> str:
    """In a sentence that says what helps; "" = it can be."""
    if facts.relation != "table":
        return (
            f"{facts.source_name} is a {facts.relation}, of which the log says nothing:"
            " follow the tables that it is made of, or use capture 'snapshot'"
        )
    if proposals["updates"].value == "partial":
        return (
            "the log has whole rows and deletes, which partial updates do not take:"
            " leave 'updates' out, or use capture 'timestamp'"
        )
    if proposals["record_key"].value == ROW_HASH:
        return (
            "a whole-row hash key cannot follow updates: every changed row would stay"
            " in its old form too. Choose columns as 'record_key', or use capture"
            " 'snapshot'"
        )
    return ""


def what_is_seen() -> tuple[str, ...]:
    """In sentences for people."""
    return (
        "inserts, updates, deletes, keys that change and TRUNCATE are seen, in the"
        " order of their commits, within seconds",
    )
