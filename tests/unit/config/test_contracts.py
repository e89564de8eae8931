"""The island contract refuses what is not on its list."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from config.contracts import IslandContract


@pytest.mark.parametrize(
    ("imported", "kept"),
    [
        ("ingest.contract.job", True),
        ("catalog.schema.types", True),
        ("core.errors", True),
        ("dataclasses", True),
        ("core.models", False),
        ("ingest.jobs.queue", False),
        ("django", False),
        ("socket", False),
    ],
)
def test_an_island(imported: str, kept: bool) -> None:
    graph = ImportGraph()
    graph.add_module("ingest.contract.segments")
    graph.add_module(imported)
    graph.add_import(
        importer="ingest.contract.segments",
        imported=imported,
        line_number=3,
        line_contents="",
    )
    contract = IslandContract(
        name="islands",
        session_options={"root_packages": ["ingest"]},
        contract_options={
            "islands": ["ingest.contract", "catalog.schema"],
            "may_import": ["core.errors"],
            "forbidden_standard": ["socket"],
        },
    )
    assert contract.check(graph, verbose=False).kept is kept
