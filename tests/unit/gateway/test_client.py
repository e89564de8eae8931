"""Pages as the web process reads them: several at a time, unpacked one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from core.sentences import Sentence, origins_in
from gateway import client
from gateway.engines.port import EngineColumn
from gateway.fair import TooManyWait
from gateway.faults import Fault
from gateway.hs2.values import TypeId
from gateway.internal import problem
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


def test_rows_are_shown_together_as_far_as_they_are_small(monkeypatch) -> None:
    small, large = ([[text]] * ROWS for text in ("x", "x" * 12_000))
    pages = [arrow_page(COLUMNS, rows) for rows in (small, small, large, large)]
    for first, rows, then in ((0, 2 * ROWS, 2), (2, ROWS, 3), (3, ROWS, 9)):
        sizes = [len(page) for page in pages[first:]]
        facts = {"rows": len(sizes) * ROWS, "sizes": sizes, "next_page": 9}
        raw = json.dumps(facts).encode() + b"\n" + b"".join(pages[first:])
        monkeypatch.setattr(client, "_exchange", lambda *_, raw=raw, **__: (200, raw))
        found = client.results_of("ann", "1", page=first)
        assert (len(found["rows"]), found["next_page"]) == (rows, then)


def test_what_the_gateway_says_can_be_translated_here(monkeypatch) -> None:
    waits = Sentence("%(count)s calls wait before this one", count=3)
    refused = problem(TooManyWait(waits, hint="try again later"))
    answer = {"error": Fault(waits).as_json(), "sentences": origins_in([waits])}
    replies = iter([(refused.status, refused.body), (200, json.dumps(answer).encode())])
    monkeypatch.setattr(client, "_exchange", lambda *_, **__: next(replies))
    with pytest.raises(client.GatewayAway) as raised:
        client.statement_of("ann", "1")
    shown = client.statement_of("ann", "1")["error"]["message"]
    for told in (raised.value.message, shown):
        assert told == waits
        assert told.origin == waits.origin
