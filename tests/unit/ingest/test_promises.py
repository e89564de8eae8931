"""What plans and docs/reading.md say of reading: one home, and nothing left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import pytest

from catalog.schema.types import Column, TableSchema
from catalog.sources.port import TableKind, Trait
from ingest.planning.capture_limits import SOURCES, TABLES, TRAPS, Promise
from ingest.planning.facts import Choices, Conditions, TableFacts, Target
from ingest.planning.plan import ApplyChanges, TablePlan, plan_from_json, plan_to_json
from ingest.planning.propose import propose_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reading.md"
BEGIN = "<!-- written by ingest/planning/capture_limits.py; a test holds it -->\n"
END = "<!-- end -->"

ID = Column("id", "id", "text", "string", nullable=False, key=1)
AT = Column("updated_at", "updated_at", "timestamp with time zone", "timestamp")


def plan(
    capture: str = "timestamp",
    *,
    chosen: bool = False,
    key: tuple[str, ...] | None = None,
    **facts,
) -> TablePlan:
    more = facts.pop("columns", ())
    return propose_table(
        TableFacts(
            "public",
            "orders",
            TableSchema((ID, AT, *more)),
            **{"source_kind": "postgresql", **facts},
        ),
        Choices(record_key=key),
        Target(
            "shop",
            "orders",
            "/lake/shop/orders",
            lossy={c.source_name: "null" for c in more},
        ),
        Conditions(capture=capture, lag_is_chosen=chosen),  # type: ignore[arg-type]
    )


def page_of_cases() -> str:
    """The cases of docs/reading.md, each below a heading of its own."""
    parts = [
        ("Kinds of source", SOURCES),
        ("Kinds of table", TABLES),
        ("What happens at the source", TRAPS),
    ]
    return "\n".join(
        f"### {title}\n\n{cases_in_markdown(promises.values())}"
        for title, promises in parts
    )


def cases_in_markdown(promises: Iterable[Promise]) -> str:
    """What Sluice does comes first: it says what to do, too."""
    lines = []
    for promise in promises:
        title, _, example = promise.title.partition(": ")
        told = {
            "What Sluice does": promise.does,
            "For example": example,
            "Not seen": promise.unseen,
            "A snapshot shows": promise.snapshot,
            "A sync shows": promise.sync,
        }
        lines += [f"#### {title}", ""]
        lines += [
            f"- **{label}.** {in_sentences(text)}"
            for label, text in told.items()
            if text
        ]
        lines.append("")
    return "\n".join(lines)


def in_sentences(text: str) -> str:
    found = text.replace("; ", ". ").split(". ")
    return (
        ". ".join(
            one[:1].upper() + one[1:] if one.partition(" ")[0].isalpha() else one
            for one in found
        )
        + "."
    )


def test_the_page_has_the_sentences_of_the_plans() -> None:
    text = PAGE.read_text()
    _, begin, rest = text.partition(BEGIN)
    written, end, _ = rest.partition(END)
    assert begin, "the page has no place for the tables"
    assert end, "the page has no end of the tables"
    assert written == page_of_cases(), "write page_of_cases() between the two marks"


def test_every_kind_and_trait_of_a_table_has_its_promise() -> None:
    # a foreign table has the trait, too
    kinds = {*get_args(TableKind), *get_args(Trait)} - {"foreign table"}
    assert kinds == set(TABLES)


@pytest.mark.parametrize(
    "promise", [*SOURCES.values(), *TABLES.values(), *TRAPS.values()]
)
def test_what_is_not_seen_has_an_answer(promise) -> None:
    if promise.unseen:
        assert promise.does, promise.title
    for text in dataclasses.astuple(promise):
        assert "|" not in text, "it would break the table of the page"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {},
            ["A primary", "A plain table", "PostgreSQL: a snapshot shows: all chunks"],
        ),
        ({"source_kind": "mariadb"}, ["MariaDB, MySQL", "its own moment"]),
        ({"relation": "partitioned table"}, ["A partitioned table", "was detached"]),
        ({"traits": frozenset({"children"})}, ["A parent of PostgreSQL"]),
        ({"traits": frozenset({"unlogged"})}, ["An unlogged table"]),
        ({"traits": frozenset({"versioned"})}, ["A temporal table"]),
        ({"is_standby": True}, ["A standby, a replica or one of several"]),
    ],
)
def test_the_plan_says_what_reading_this_table_promises(facts, said) -> None:
    made = plan(chosen=True, **facts)
    for part in said:
        assert part in "\n".join(made.reading)
    assert plan_from_json(plan_to_json(made)).reading == made.reading


@pytest.mark.parametrize("capture", ["log", "snapshot"])
def test_what_a_cursor_passes_over_is_said_of_syncs_alone(capture: str) -> None:
    said = [str(each) for each in plan(capture).reading]
    assert all("a snapshot shows" in each for each in said)
    for words in ("cursor", "safety lag", "not seen"):
        assert words not in "\n".join(said)


@pytest.mark.parametrize("trait", ["children", "unlogged", "versioned"])
def test_a_trait_is_a_warning_too(trait: str) -> None:
    made = plan(traits=frozenset({trait}))
    assert made.blocked == ""
    assert any(TABLES[trait].unseen in w for w in made.warnings)


def test_foreign_rows_are_loaded_with_a_warning_and_never_followed() -> None:
    followed = plan(traits=frozenset({"foreign"}))
    assert "another server" in followed.blocked
    assert followed.steps == ()
    loaded = plan("snapshot", traits=frozenset({"foreign"}))
    assert loaded.blocked == ""
    assert any(TABLES["foreign"].unseen in w for w in loaded.warnings)


def test_a_standby_is_followed_with_a_chosen_lag_only() -> None:
    assert "lag_seconds" in plan(is_standby=True).blocked
    assert plan("snapshot", is_standby=True).blocked == ""
    chosen = plan(is_standby=True, chosen=True)
    assert chosen.blocked == ""
    assert any(SOURCES["standby"].unseen in w for w in chosen.warnings)


def test_a_server_that_may_be_a_replica_is_told() -> None:
    unknown = plan(is_standby=None, source_kind="mariadb")
    assert any("whether it is a replica" in w for w in unknown.warnings)
    known = plan(is_standby=False, source_kind="mariadb")
    assert not any("whether it is a replica" in w for w in known.warnings)


def test_what_timestamp_capture_misses_is_named_one_by_one() -> None:
    missed = plan(relation="partitioned table").step(ApplyChanges).missed
    for part in (
        "deleted rows",
        "key changes",
        "TRUNCATE",
        "created again",
        "detached",
    ):
        assert any(part in sentence for sentence in missed), part


def test_keys_that_are_one_at_the_source_and_several_in_the_lake_are_told() -> None:
    made = plan(key_forms={"id": "upper and lower case", "region": "x"})
    (told,) = [w for w in made.warnings if "id (upper and lower case)" in w]
    assert "region" not in told
    assert TRAPS["key_forms"].unseen in told


@pytest.mark.parametrize(
    ("key", "uniques", "is_told"),
    [
        (("id",), (), False),
        (("v",), (), True),
        (("v",), (("v",),), False),
        (("v", "w"), (("w",),), False),
        (("v",), (("v", "w"),), True),
    ],
)
def test_a_key_that_nothing_keeps_unique_is_told_before_it_is_approved(
    key: tuple[str, ...], uniques: tuple[tuple[str, ...], ...], *, is_told: bool
) -> None:
    texts = tuple(Column(n, n, "text", "string", nullable=False) for n in "vw")
    for capture in ("timestamp", "snapshot"):
        made = plan(capture, key=key, columns=texts, unique_indexes=uniques)
        told = [w for w in made.warnings if "no unique index" in w]
        assert bool(told) == (is_told and capture == "timestamp")


def test_values_that_become_null_are_named() -> None:
    price = Column("price", "price", "numeric(12,2)", "decimal(12,2)")
    (told,) = [w for w in plan(columns=(price,)).warnings if "'price'" in w]
    assert "NaN" in told
    day = Column("day", "day", "date", "date")
    (told,) = [w for w in plan(columns=(day,)).warnings if "'day'" in w]
    assert "-infinity" in told
