"""Rows that a driver cannot hold are told by their size; a table of cases."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest

from core.errors import TerminalError
from ingest.contract.segments import OP, TablePart
from ingest.driver.apply.wide_rows import (
    is_wide,
    refuse_too_wide,
    refuse_too_wide_part,
    widest,
)

MOST = 1000


def rows_of(*rows: tuple[int, int, str]) -> pa.Table:
    """(key, bytes of its value, what became of it)"""
    keys, sizes, ops = zip(*rows, strict=True)
    values = [b"x" * size for size in sizes]
    return pa.table({"c0": keys, "c1": values, OP: ops})


NARROW = [(key, 40, "update") for key in range(400)]
CASES = [
    # (rows, the key of the one that is too wide, None = none is; whether one is wide)
    pytest.param(NARROW, None, False, id="many-narrow-ones"),
    pytest.param([(7, 900, "update")], None, True, id="as-wide-as-may-be"),
    pytest.param([(7, 200, "update")], None, False, id="not-wide-enough-to-wait"),
    pytest.param([(7, 1000, "update")], 7, True, id="what-is-beside-it-counts"),
    *(
        pytest.param([*NARROW[:n], (1000 + n, 5000, "update"), *NARROW[n:]], 1000 + n,
                     True, id=f"at-{n}")
        for n in (0, 199, 200, 400)
    ),
    pytest.param(
        [(1, 5, "update"), (2, 5000, "delete")], 2, True, id="a-deleted-one"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "key", "wide"), CASES)
def test_a_row_that_is_too_wide_is_found(
    rows: list[tuple[int, int, str]], key: int | None, wide: bool
) -> None:
    found = rows_of(*rows)
    assert is_wide(found, MOST) == wide
    if key is None:
        refuse_too_wide(found, MOST, table="shop.t", key=["c0"])
        return
    with pytest.raises(TerminalError, match=rf"shop\.t .*\(key {key}\)") as told:
        refuse_too_wide(found, MOST, table="shop.t", key=["c0"])
    assert told.value.code == "row_too_large"


def test_the_error_says_how_much_memory_it_takes() -> None:
    heap = 1200 << 20
    row = rows_of((7, 90 << 20, "update"))
    with pytest.raises(TerminalError, match=r"of 90 MiB .* of \d+ MiB at most") as told:
        refuse_too_wide(row, widest(heap), table="shop.t", key=["c0"])
    (wanted,) = [int(w[:-1]) for w in told.value.hint.split() if w[:-1].isdigit()]
    assert wanted > heap >> 20
    refuse_too_wide(row, widest(wanted << 20), table="shop.t", key=["c0"])


@pytest.mark.parametrize(("size", "refused"), [(64, False), (124, False), (150, True)])
def test_a_part_is_refused_before_it_is_read(size: int, refused: bool) -> None:
    """By its bytes: up to 64 MiB of them may be other rows."""
    part = TablePart(1, 1, rows=9, offset=0, bytes=size << 20, crc=0)
    told = (
        pytest.raises(TerminalError, match=r"row of 86 MiB \(segment 5\)")
        if refused
        else nullcontext()
    )
    with told:
        refuse_too_wide_part(part, 60 << 20, table="shop.t", number=5)
