"""A kind of source is a folder and a line of the registry; an unknown one is an error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.discovery.choosing import uncarried
from catalog.discovery.probe import run_probe
from catalog.discovery.store import NO_PRIVILEGE
from catalog.schema.naming import lake_columns
from catalog.sources import registry
from catalog.sources.access import SourceAccess
from catalog.sources.kinds import checked_options, json_schema
from catalog.sources.port import discoverer_of
from core.errors import InvalidRequest
from ingest.planning.facts import Choices, Conditions, TableFacts, Target
from ingest.planning.propose import propose_table
from ingest.sources.dialects import dialect_of
from tests.unit.catalog.sources.ledger.kind import LEDGER

ACCESS = SourceAccess("nowhere", 4711, "book", "ann", "pw", kind="ledger")


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line: all else is the folder `ledger`."""
    monkeypatch.setitem(registry.KINDS, LEDGER.name, LEDGER)


@pytest.mark.usefixtures("ledger")
def test_a_new_kind_is_tested_discovered_and_planned() -> None:
    kind = registry.kind_named("ledger")
    assert kind in registry.KINDS.values()
    assert json_schema(kind)["title"] == "Ledger"
    assert checked_options(kind, {})["max_parallel_reads"] == 2

    assert run_probe(ACCESS).is_ok

    with discoverer_of("ledger").reader(ACCESS) as reader:
        assert reader.overview().tables == 1
        (found,) = reader.page(None, limit=10).tables
    columns = lake_columns(found.schema.columns)
    assert [c.type for c in columns] == ["bigint", "decimal(38,2)", "timestamp", ""]

    plan = propose_table(
        TableFacts(
            found.database,
            found.name,
            found.schema,
            estimated_rows=found.estimated_rows,
            indexed=frozenset(found.indexed),
            source_kind="ledger",
        ),
        Choices(exclude_columns=("seal",)),
        Target("book", "entries", "/lake/book/entries", lossy={"sum": "null"}),
        Conditions(capture="timestamp"),
    )
    assert plan.blocked == ""
    said = "\n".join((*plan.warnings, *plan.reading))
    assert "amounts beyond 36 digits" in said
    assert "each chunk shows its own moment" in said


@pytest.mark.usefixtures("ledger")
def test_the_words_of_a_new_kind_are_its_own() -> None:
    told = uncarried(
        "book", "entries", status=NO_PRIVILEGE, reason="", login=("ledger", "ann")
    )
    assert "LET ann READ book/entries" in told.way_out
    assert registry.footprint_of("ledger", 2).transactions == 2


@pytest.mark.parametrize(
    ("kind", "code"), [("x", "unknown_kind"), ("oracle", "not_yet")]
)
@pytest.mark.parametrize(
    "ask",
    [
        registry.kind_named,
        discoverer_of,
        dialect_of,
        lambda kind: registry.footprint_of(kind, 2),
        lambda kind: registry.cannot_hold("text", "string", kind=kind),
    ],
)
def test_an_unknown_kind_is_an_error_everywhere(
    ask: Callable[[str], object], kind: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        ask(kind)
    assert raised.value.code == code


def test_every_kind_that_is_offered_can_be_read() -> None:
    from ingest.sources import connections
    from ingest.sources import registry as sources

    parts = (sources._SOURCES, sources._LOGS, connections._CONNECTIONS)
    for kind in registry.KINDS.values():
        assert discoverer_of(kind.name).reader
        assert dialect_of(kind.name)
        assert all(kind.family.name in part for part in parts)
