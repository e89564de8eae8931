"""Pages as the web process reads them: several at a time, unpacked one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from gateway import client
from gateway.engines.port import EngineColumn
from gateway.hs2.values import TypeId
from tests.doubles.engine import arrow_page

COLUMNS = (EngineColumn("a", TypeId.STRING),)
PAGES = 200
ROWS = 100


@pytest.fixture
def answered(monkeypatch) -> None:
    """The gateway answers with all pages at once, each small until it is unpacked."""
    page = arrow_page(COLUMNS, [["x" * 10_000]] * ROWS)
    facts = {"rows": PAGES * ROWS - 1, "sizes": [len(page)] * PAGES, "next_page": None}
    raw = json.dumps(facts).encode() + b"\n" + page * PAGES
    monkeypatch.setattr(client, "_exchange", lambda *_, **__: (200, raw))


def test_pages_are_unpacked_one_after_the_other(answered) -> None:
    rows, largest, before = 0, 0, pa.total_allocated_bytes()
    for batch in client.batches_of("ann", "1"):
        rows += batch.num_rows
        largest = max(largest, pa.total_allocated_bytes() - before)
    assert rows == PAGES * ROWS - 1
    assert largest < 10 * 10_000 * ROWS
