"""The limits of connections to a source fit each other, and the docs name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.schema.limits import LIMITS
from catalog.sources.registry import footprint_of

DOCS = (Path(__file__).parents[4] / "docs/reading.md").read_text()


def test_a_server_that_is_merely_slow_says_so_before_we_hang_up() -> None:
    assert LIMITS.lock < LIMITS.give_way < LIMITS.statement < LIMITS.silent
    assert LIMITS.beat * 5 < LIMITS.abandoned
    assert LIMITS.keep_idle + LIMITS.keep_interval * LIMITS.keep_probes <= 60


def test_an_alter_never_waits_longer_than_half_a_minute() -> None:
    assert LIMITS.give_way + LIMITS.beat < 30


@pytest.mark.parametrize(
    ("kind", "parallel", "connections", "transactions"),
    [("postgresql", 2, 4, 3), ("mariadb", 2, 4, 2), ("postgresql", 0, 3, 2)],
)
def test_what_a_source_sees(
    kind: str, parallel: int, connections: int, transactions: int
) -> None:
    found = footprint_of(kind, parallel)
    assert (found.connections, found.transactions) == (connections, transactions)


@pytest.mark.parametrize(
    "text",
    [
        f"{LIMITS.lock} s; discoveries and connection tests {LIMITS.glance_lock} s |",
        f"{LIMITS.statement} s |",
        f"{LIMITS.silent} s |",
        f"{LIMITS.reader} s |",
        f"{LIMITS.abandoned} s, then the source ends it",
        f"{LIMITS.unused} s more",
        f"{LIMITS.reader_idle} s |",
        f"{LIMITS.result_bytes >> 20} MiB",
        f"({LIMITS.kept} s where",
        f"no row for {LIMITS.quiet} s",
        f"for {LIMITS.unanswered} s | {LIMITS.quiet + LIMITS.unanswered} s |",
        f"After {LIMITS.give_way} s",
    ],
)
def test_the_docs_name_each_limit(text: str) -> None:
    assert text in DOCS
