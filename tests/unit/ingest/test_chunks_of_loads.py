"""How many rows a chunk of a load has, and which loads are short."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.contract.table import SourceSpec
from ingest.driver.capture.chunking import chunk_rows_of_load, is_short

SOURCE = SourceSpec(7, "postgresql", "h", 1, "d", "u", "datasource:7")


@pytest.mark.parametrize(
    ("rows", "a_second", "chunk"),
    [
        pytest.param(0, 0, 250, id="nobody knows how many"),
        pytest.param(10, 0, 1000, id="one wave"),
        pytest.param(1000, 0, 1000, id="the longest short load"),
        pytest.param(1001, 0, 250, id="a long load"),
        pytest.param(10, 20, 100, id="a throttle wants an even flow"),
    ],
)
def test_a_short_load_is_one_wave(rows: int, a_second: int, chunk: int) -> None:
    source = replace(SOURCE, max_rows_per_second=a_second)
    assert chunk_rows_of_load(250, source, rows=rows) == chunk


def test_a_load_is_short_by_its_chunks() -> None:
    many = replace(SOURCE, max_parallel_reads=8)
    assert [is_short(n, SOURCE) for n in (1, 4, 5)] == [True, True, False]
    assert [is_short(n, many) for n in (8, 9)] == [True, False]
