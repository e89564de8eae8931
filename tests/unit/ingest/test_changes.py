"""Sequence numbers, chunks and SELECTs, table-driven."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidRequest, SluiceError
from ingest.contract.positions import INDEX_BITS, MAX_EPOCH, MAX_INDEX, seq_of
from ingest.contract.table import ColumnSpec
from ingest.sources.chunks import (
    Chunk,
    KeyPart,
    after_predicate,
    fill_waves,
    key_predicate,
    page_predicate,
    plan_even_chunks,
    plan_page_chunks,
    plan_walked_chunks,
)
from ingest.sources.dialects import dialect_of
from ingest.sources.select import mask_of, select_columns

POSTGRESQL = dialect_of("postgresql")


@given(
    st.tuples(st.integers(0, MAX_EPOCH), st.integers(0, MAX_INDEX)),
    st.tuples(st.integers(0, MAX_EPOCH), st.integers(0, MAX_INDEX)),
)
def test_sequence_numbers_order_as_epoch_then_index(
    one: tuple[int, int], two: tuple[int, int]
) -> None:
    assert (seq_of(*one) < seq_of(*two)) == (one < two)
    assert seq_of(*one) < 2**63
    assert seq_of(*one) >> INDEX_BITS == one[0]


@pytest.mark.parametrize(
    ("epoch", "index"), [(-1, 0), (0, -1), (0, MAX_INDEX + 1), (MAX_EPOCH + 1, 0)]
)
def test_numbers_that_do_not_fit_are_refused(epoch: int, index: int) -> None:
    with pytest.raises(InvalidRequest):
        seq_of(epoch, index)


def covered(chunks: tuple[Chunk, ...], values: list[int]) -> list[int]:
    """How many chunks hold each value, by the same comparisons as in SQL."""
    return [
        sum(
            (not c.low or v > int(c.low[0])) and (not c.high or v <= int(c.high[0]))
            for c in chunks
        )
        for v in values
    ]


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 5000),
    st.integers(1, 700),
    st.data(),
)
def test_even_chunks_hold_every_key_exactly_once(
    lowest: int, width: int, chunk_rows: int, data: st.DataObject
) -> None:
    highest = min(lowest + width, 2**63 - 1)
    chunks = plan_even_chunks(
        lowest=lowest, highest=highest, rows=width + 1, chunk_rows=chunk_rows
    )
    assert chunks is not None
    values = data.draw(st.lists(st.integers(lowest, highest), max_size=20))
    assert covered(chunks, [*values, lowest, highest]) == [1] * (len(values) + 2)
    assert [c.number for c in chunks] == list(range(len(chunks)))


def test_keys_over_the_whole_range_are_walked_not_stepped() -> None:
    assert (
        plan_even_chunks(lowest=-(2**63), highest=2**63 - 1, rows=100, chunk_rows=10)
        is None
    )
    one = plan_even_chunks(lowest=-(2**63), highest=2**63 - 1, rows=2, chunk_rows=10)
    assert one == (Chunk(0, (), (str(2**63 - 1),)),)


def test_walked_chunks_end_at_the_highest_key() -> None:
    chunks = plan_walked_chunks([("10",), ("20",)], ("20",))
    assert chunks == (Chunk(0, (), ("10",)), Chunk(1, ("10",), ("20",)))


@pytest.mark.parametrize(
    ("rows", "readers", "chunk_rows"),
    [
        (0, 2, 200),
        (200, 2, 200),
        (201, 2, 101),
        (1000, 2, 167),
        (1000, 5, 200),
        (1001, 5, 101),
        (1000, 1, 200),
    ],
)
def test_every_wave_of_readers_is_full(
    rows: int, readers: int, chunk_rows: int
) -> None:
    assert fill_waves(200, rows=rows, readers=readers) == chunk_rows


@pytest.mark.parametrize(
    ("rows", "readers", "chunk_rows"),
    [
        (99_999, 2, 1_000_000),
        (100_000, 2, 50_000),
        (1_000_000, 2, 500_000),
        (100_000, 1, 100_000),
        (100_000, 4, 1_000_000),
    ],
)
def test_a_chunk_alone_is_shared_out_when_it_is_worth_it(
    rows: int, readers: int, chunk_rows: int
) -> None:
    assert fill_waves(1_000_000, rows=rows, readers=readers) == chunk_rows


@pytest.mark.parametrize(
    ("pages", "rows", "count"), [(0, 0, 1), (10, 1000, 10), (3, 10**6, 3)]
)
def test_page_chunks_are_open_at_the_end(pages: int, rows: int, count: int) -> None:
    chunks = plan_page_chunks(pages=pages, rows=rows, chunk_rows=100)
    assert len(chunks) == count
    assert chunks[0].low == ("0",)
    assert chunks[-1].high == ()
    assert all(a.high == b.low for a, b in itertools.pairwise(chunks))


def test_predicates_compare_in_the_database_by_type() -> None:
    one = [KeyPart('a"b', "bigint")]
    two = [KeyPart("a", "text"), KeyPart("b", "integer")]
    chunk = Chunk(0, ("1",), ("5",))
    assert (
        key_predicate(POSTGRESQL, one, chunk)
        == '"a""b" > \'1\'::bigint AND "a""b" <= \'5\'::bigint'
    )
    assert (
        key_predicate(POSTGRESQL, two, Chunk(0, ("x'", "1"), ()))
        == "(\"a\", \"b\") > ('x'''::text, '1'::integer)"
    )
    assert key_predicate(POSTGRESQL, one, Chunk(0)) == "TRUE"
    assert (
        page_predicate(Chunk(0, ("0",), ("9",)))
        == "ctid >= '(0,0)'::tid AND ctid < '(9,0)'::tid"
    )
    assert after_predicate(POSTGRESQL, one, ()) == "TRUE"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", "'a'"),
        ("it's", "'it''s'"),
        ("b\\", " E'b\\\\'"),
        ("", "''"),
        ('名"', "'名\"'"),
    ],
)
def test_literals(text: str, wanted: str) -> None:
    assert POSTGRESQL.literal(text) == wanted


def test_names_are_quoted_and_nul_is_refused() -> None:
    assert POSTGRESQL.qualified('s"x', "t.y") == '"s""x"."t.y"'
    for quote in (POSTGRESQL.name, POSTGRESQL.literal):
        with pytest.raises(InvalidRequest):
            quote("a\0b")


def column(source_type: str, lake: str, source_name: str = 'x"y') -> ColumnSpec:
    return ColumnSpec(source_name, "x", source_type, lake)


@pytest.mark.parametrize(
    ("source_type", "lake", "part", "is_counted"),
    [
        ("bigint", "bigint", '"x""y"::int8', False),
        ("json", "string", '"x""y"::text', False),
        ("character(5)", "string", '"x""y"::text', False),
        ("bytea", "binary", '"x""y"::bytea', False),
        ("numeric(9,2)", "decimal(9,2)", "END)::numeric(9,2)", True),
        ("date", "date", "'0001-01-01'::date", True),
        ("timestamp with time zone", "timestamp", "::timestamptz", True),
        (
            "timestamp without time zone",
            "timestamp_ntz",
            "::timestamp) * 1000000)::int8 END",
            True,
        ),
        ("text[]", "array<string>", "array_ndims", True),
        ("date[]", "array<date>", "NOT (e.v::date >= '0001-01-01'", True),
        ("date[]", "array<string>", "array_ndims", True),
        ("numeric(5,2)[]", "array<decimal(5,2)>", "NOT (e.v <> 'NaN'", True),
        ("date", "string", '"x""y"::text', False),
    ],
)
def test_expressions_by_type(
    source_type: str, lake: str, part: str, is_counted: bool
) -> None:
    selection = select_columns(POSTGRESQL, [column(source_type, lake)])
    sql = selection.sql(POSTGRESQL.qualified("s", "t"), "TRUE")
    assert part in sql
    assert (selection.columns[0].bit >= 0) == is_counted
    assert len(selection.masks) == is_counted


def test_masks_hold_many_columns() -> None:
    selection = select_columns(
        POSTGRESQL, [column("date", "date", f"c{i}") for i in range(130)]
    )
    assert len(selection.masks) == 3
    places = {mask_of(c.bit) for c in selection.columns}
    assert len(places) == 130
    assert all(flag < 2**62 for _, flag in places)


def test_an_unknown_lake_type_is_refused() -> None:
    with pytest.raises(SluiceError):
        select_columns(POSTGRESQL, [column("text", "varchar")])
