"""What a log says of a table, merged: against a replay of it row by row."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from catalog.schema.types import DataType
from core.errors import TerminalError
from ingest.contract.segments import OPS
from ingest.contract.table import SHARD, ColumnSpec, SealedColumn
from ingest.driver.apply.log_fold import (
    Merged,
    Part,
    Shape,
    merge,
    older_value,
    unfit_counts,
    without_shown,
)
from ingest.sources.row_batches import arrow_type, schema_of
from tests.long_tests import first_then_long

ID = SealedColumn("c0", "id", "bigint")
LONG = SealedColumn("c1", "long", "string")
AMOUNT = SealedColumn("c2", "amount", "decimal(9,2)", 0)
COLUMNS = (ID, LONG, AMOUNT)
SHAPE = Shape("shop.t", COLUMNS, 1, ("c0",))
UNSENT = object()
UNFIT = object()


def rows_of(
    changes: Iterable[tuple[Any, ...]], columns: Sequence[SealedColumn] = COLUMNS
) -> pa.Table:
    """changes: (op, value of each column in their order), and `xid` as a last one."""
    made: dict[str, list[Any]] = {"op": [], "xid": [], "unchanged": []}
    masks = max((c.bit for c in columns), default=-1) // 62 + 1
    names = [c.alias for c in columns] + [f"m{n}" for n in range(masks)]
    made |= {name: [] for name in names}
    for op, *given in changes:
        values = given[: len(columns)]
        bits = sum(1 << n for n, value in enumerate(values) if value is UNSENT)
        made["op"].append(OPS.index(op))
        made["xid"].append(given[len(columns)] if len(given) > len(columns) else 0)
        made["unchanged"].append(bits.to_bytes(1, "little") if bits else None)
        for column, value in zip(columns, values, strict=True):
            kept = value not in (UNSENT, UNFIT)
            made[column.alias].append(value if kept else None)
        flags = (1 << c.bit for c, v in zip(columns, values, strict=True) if v is UNFIT)
        if masks:
            made["m0"].append(sum(flags))
    types = [arrow_type(DataType.parse(c.type)) for c in columns]
    return pa.table(made, schema=schema_of(columns, types, masks))


def part(number: int, *changes: tuple[Any, ...]) -> Part:
    return Part(number, rows_of(changes))


def seen(merged: Merged, *, shape: Shape = SHAPE) -> dict[Any, Any]:
    """Key → values of the other columns, None = deleted."""
    found = {}
    for row in merged.rows.to_pylist():
        values = tuple(row[c.alias] for c in shape.columns)
        assert values[0] not in found, "a key came twice"
        found[values[0]] = None if row["op"] == "delete" else values[1:]
    return found


def test_the_last_write_of_each_key_is_kept() -> None:
    merged = merge(
        [
            part(7, ("insert", 1, "a", None), ("insert", 2, "b", None)),
            part(8, ("update", 1, "c", Decimal("1.50")), ("delete", 2, None, None)),
            part(9, ("insert", 3, "d", None), ("delete", 3, None, None)),
            part(9, ("insert", 3, "e", None)),
        ],
        SHAPE,
    )
    assert seen(merged) == {1: ("c", Decimal("1.50")), 2: None, 3: ("e", None)}
    assert not merged.is_emptied
    assert merged.rows["i"].to_pylist() == [8 << 24 | 1, 8 << 24 | 1, 9 << 24 | 1]
    assert merged.rows.schema == SHAPE.schema


def test_a_moved_row_leaves_its_old_key() -> None:
    merged = merge(
        [
            part(
                3,
                ("insert", 1, "a", None),
                ("delete", 1, None, None),
                ("moved", 5, UNSENT, None),
            )
        ],
        SHAPE,
    )
    assert seen(merged) == {1: None, 5: ("a", None)}
    swapped = [
        ("delete", 1, None, None), ("moved", 9, "one", None),
        ("delete", 2, None, None), ("moved", 1, "two", None),
        ("delete", 9, None, None), ("moved", 2, UNSENT, None),
    ]  # fmt: skip
    assert seen(merge([part(3, *swapped)], SHAPE)) == {
        1: ("two", None), 9: None, 2: ("one", None)
    }  # fmt: skip


def test_what_was_not_sent_is_the_last_known_value() -> None:
    merged = merge(
        [
            part(1, ("insert", 1, "long", UNFIT), ("update", 1, UNSENT, Decimal(2))),
            part(2, ("update", 1, UNSENT, UNSENT), ("update", 2, UNSENT, Decimal(3))),
            part(3, ("update", 3, "other", UNFIT), ("update", 3, UNSENT, UNSENT)),
        ],
        SHAPE,
    )
    lacking = merged.lacking
    assert lacking is not None
    assert (lacking.keys.to_pydict(), lacking.aliases(SHAPE)) == ({"c0": [2]}, ["c1"])
    assert unfit_counts(merged.rows, SHAPE) == {"amount": 1}
    lake = pa.table({"c1": ["of 5", "of 2"], "c0": pa.array([5, 2], pa.int64())})
    filled = Merged(merged.filled(SHAPE, lake), is_emptied=False)
    assert seen(filled) == {
        1: ("long", Decimal(2)), 2: ("of 2", Decimal(3)), 3: ("other", None)
    }  # fmt: skip
    with pytest.raises(TerminalError, match="values of 1 rows") as missing:
        merged.filled(SHAPE, lake.slice(0, 1))
    assert missing.value.code == "row_missing"


def test_the_lake_has_a_moved_row_under_its_old_key() -> None:
    moved = [
        ("delete", 1, None, None), ("moved", 2, UNSENT, None),
        ("update", 2, UNSENT, Decimal(1)),
        ("delete", 2, None, None), ("moved", 3, UNSENT, UNSENT),
    ]  # fmt: skip
    merged = merge([part(1, *moved)], SHAPE)
    assert merged.lacking is not None
    assert merged.lacking.keys.to_pydict() == {"c0": [1]}
    lake = pa.table({"c0": pa.array([1], pa.int64()), "c1": ["kept"]})
    filled = Merged(merged.filled(SHAPE, lake), is_emptied=False)
    assert seen(filled) == {1: None, 2: None, 3: ("kept", Decimal(1))}


def test_the_lake_has_it_by_its_key_whatever_partitions_it() -> None:
    """With a replica identity that has the partition, and not the long column."""
    columns = (ID, LONG, SealedColumn("c2", "part", "string"))
    shape = Shape("t", columns, 0, ("c0",), ("c2",))
    rows = rows_of([("delete", 1, None, "a"), ("moved", 1, UNSENT, "b")], columns)
    merged = merge([Part(1, rows)], shape)
    lake = pa.table({"c0": pa.array([1], pa.int64()), "c1": ["kept"]})
    found = merged.filled(shape, lake).select(["op", "c1", "c2"]).to_pylist()
    assert found == [
        {"op": "delete", "c1": None, "c2": "a"},
        {"op": "update", "c1": "kept", "c2": "b"},
    ]


def test_what_was_before_a_truncation_is_gone() -> None:
    emptied = [
        ("insert", 1, "a", None), ("truncate", None, None, None),
        ("insert", 2, "b", None), ("update", 2, UNSENT, Decimal(1)),
    ]  # fmt: skip
    merged = merge([part(1, *emptied)], SHAPE)
    assert merged.is_emptied
    assert seen(merged) == {2: ("b", Decimal(1))}
    last = merge([part(1, *emptied, ("truncate", None, None, None))], SHAPE)
    assert last.is_emptied
    assert last.rows.num_rows == 0
    assert last.rows.schema == SHAPE.schema


@pytest.mark.parametrize("rows_have", [True, False])
def test_what_empties_a_table_needs_no_columns_that_rows_around_it_have(
    *, rows_have: bool
) -> None:
    """MariaDB's log says a statement: its columns are those of the plan of then."""
    added = {"amount": pa.scalar(Decimal(3), pa.decimal128(9, 2))}
    shape = replace(SHAPE, added=added)
    without = [c for c in SHAPE.columns if c.source_name != "amount"]
    whole = part(1, ("insert", 1, "a", Decimal(1)))
    emptied = Part(2, rows_of([("truncate", None, None)], without))
    if not rows_have:
        whole = Part(1, rows_of([("insert", 1, "a")], without))
        emptied = part(2, ("truncate", None, None, None))
    behind = replace(whole, number=3)
    merged = merge([whole, emptied, behind], shape)
    assert merged.is_emptied
    assert seen(merged) == {1: ("a", Decimal(1 if rows_have else 3))}


SHARDED_COLUMNS = (
    SealedColumn("c0", SHARD, "string"),
    SealedColumn("c1", "id", "bigint"),
    SealedColumn("c2", "long", "string"),
    SealedColumn("c3", "amount", "decimal(9,2)", 0),
)
SHARDED = Shape("t", SHARDED_COLUMNS, 1, ("c0", "c1"), read=frozenset({"a", "b"}))


def test_what_empties_a_shard_takes_rows_of_no_other() -> None:
    rows = rows_of(
        [
            ("insert", "a", 1, "gone", None), ("insert", "b", 1, "stays", None),
            ("truncate", "a", None, None, None), ("update", "b", 2, UNSENT, Decimal(1)),
            ("insert", "a", 2, "new", None), ("update", "a", 2, UNSENT, Decimal(2)),
        ],
        SHARDED_COLUMNS,
    )  # fmt: skip
    merged = merge([Part(1, rows)], SHARDED)
    assert (merged.is_emptied, merged.emptied) == (False, frozenset("a"))
    assert merged.lacking is not None
    assert merged.lacking.keys.to_pylist() == [{"c0": "b", "c1": 2}]
    found = [tuple(row.values())[:3] for row in merged.rows.to_pylist()]
    assert found == [("b", 1, "stays"), ("b", 2, None), ("a", 2, "new")]
    assert not merge([Part(1, rows.slice(3))], SHARDED).emptied


WIDE = (
    SealedColumn("c0", "amount", "decimal(12,2)", 0),
    SealedColumn("c1", "id", "bigint"),
)


def test_columns_are_found_by_name_whatever_their_order_is() -> None:
    """Between two segments the plan has widened a column and left one out."""
    shape = Shape("shop.t", WIDE, 1, ("c1",))
    merged = merge(
        [
            part(1, ("insert", 1, "a", Decimal("1.5")), ("insert", 2, "b", UNFIT)),
            Part(2, rows_of([("update", UNSENT, 1)], WIDE)),
        ],
        shape,
    )
    assert merged.rows["c1"].to_pylist() == [2, 1]
    assert merged.rows["c0"].to_pylist() == [None, Decimal("1.50")]
    assert merged.rows["m0"].to_pylist() == [1, 0]


@pytest.mark.parametrize(
    ("columns", "code", "words"),
    [
        ((ID, AMOUNT), "segment_lacks_columns", "without the columns long"),
        (
            (ID, LONG, SealedColumn("c2", "amount", "string")),
            "segment_types_differ",
            r"amount is string, not decimal\(9,2\)",
        ),
        (
            (ID, LONG, SealedColumn("c2", "amount", "decimal(12,2)", 0)),
            "segment_types_differ",
            "amount is decimal",
        ),
    ],
)
def test_other_columns_than_the_plan_has_are_named(
    columns: tuple[SealedColumn, ...], code: str, words: str
) -> None:
    values = [None if column.source_name == "amount" else 1 for column in columns]
    values = [
        "x" if c.type == "string" else v for c, v in zip(columns, values, strict=True)
    ]
    other = Part(4, rows_of([("insert", *values)], columns))
    with pytest.raises(TerminalError, match=words) as refused:
        merge([other], SHAPE)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("type", "values", "count"),
    [
        ("double", [0.0, -0.0, float("nan"), float("nan")], 3),
        ("float", [0.0, -0.0, float("nan"), float("nan")], 3),
        ("array<int>", [[1, None], [1], [1, None]], 2),
        ("string", ["a", "A", "a ", "a"], 3),
        ("binary", [b"\0", b"", b"\0"], 2),
        ("boolean", [True, False, True], 2),
    ],
)
def test_keys_of_every_type_are_told_apart(
    type: str, values: list[Any], count: int
) -> None:
    column = SealedColumn("c0", "id", type)
    changes = [("insert", value) for value in values]
    found = merge(
        [Part(1, rows_of(changes, (column,)))], Shape("t", (column,), 0, ("c0",))
    )
    assert found.rows.num_rows == count


def test_rows_whose_key_has_no_form_are_refused() -> None:
    """Of several only one would be left, for the lake has NULL for each of them."""
    when = SealedColumn("c0", "at", "timestamp", 0)
    columns, shape = (when, LONG), Shape("t", (when, LONG), 1, ("c0", "c1"))
    gone = [("delete", UNFIT, "a"), ("insert", datetime(2026, 1, 2, tzinfo=UTC), "a")]
    assert merge([Part(1, rows_of(gone, columns))], shape).rows.num_rows == 2
    rows = rows_of([("insert", UNFIT, "a"), *gone], columns)
    with pytest.raises(TerminalError, match="in the key at NULL") as refused:
        merge([Part(1, rows)], shape)
    assert refused.value.code == "key_without_form"


def test_keys_of_several_columns() -> None:
    columns = (SealedColumn("c0", "a", "string"), SealedColumn("c1", "b", "string"))
    changes = [("insert", "x", "yz"), ("insert", "xy", "z"), ("insert", "x", "yz")]
    shape = Shape("t", columns, 0, ("c0", "c1"))
    assert merge([Part(1, rows_of(changes, columns))], shape).rows.num_rows == 2


@pytest.mark.parametrize(
    ("type", "values", "count"),
    [
        ("timestamp", [0, 86_399_999_999, -1, 86_400_000_000], 3),
        ("timestamp_ntz", [0, 86_399_999_999, -1, None], 3),
        ("string", ["a", "", None, "__HIVE_DEFAULT_PARTITION__", "A"], 3),
        ("date", [0, 1, 0], 2),
    ],
)
def test_rows_are_told_apart_by_their_partition(
    type: str, values: list[Any], count: int
) -> None:
    columns = (SealedColumn("c0", "id", "bigint"), SealedColumn("c1", "part", type))
    given = pa.array(values, arrow_type(DataType.parse(type))).to_pylist()
    rows = rows_of([("insert", 1, value) for value in given], columns)
    shape = Shape("t", columns, 0, ("c0",), ("c1",))
    assert merge([Part(1, rows)], shape).rows.num_rows == count


@pytest.mark.parametrize(
    ("snapshot", "shown"),
    [
        ("100:105:", [1, 99, 100, 104]),
        ("100:105:100,103", [1, 99, 101, 104]),
        # the log's numbers begin anew each four billion transactions
        (f"{(1 << 32) + 5}:{(1 << 32) + 8}:{(1 << 32) + 6}", [0xFFFFFFFF, 1, 5, 7]),
        (f"{(3 << 32) - 2}:{(3 << 32) - 1}:", [0xFFFFFFFD]),
    ],
)
def test_what_a_load_shows_is_told_by_its_snapshot(
    snapshot: str, shown: list[int]
) -> None:
    _, end, running = snapshot.split(":")
    low = 0xFFFFFFFF
    later = [int(end) & low, (int(end) + 1) & low, (int(end) + 1000) & low]
    still = [int(text) & low for text in running.split(",") if text]
    xids = [*shown, *later, *still, 0]
    rows = rows_of([("insert", n, "a", None, xid) for n, xid in enumerate(xids)])
    kept = without_shown(rows, snapshot)["xid"].to_pylist()
    assert kept == [*later, *still, 0]


@dataclass
class Source:
    """A table whose long values are logged only where they change; transactions of it
    run side by side."""

    random: random.Random
    rows: dict[int, tuple[str, int]] = field(default_factory=dict)
    log: list[tuple[Any, ...]] = field(default_factory=list)
    texts: int = 0

    def change(self, xid: int) -> None:
        choice = self.random.random()
        key = self.random.randrange(6)
        if choice < 0.04:
            self.rows.clear()
            self.log.append(("truncate", None, None, None, xid))
        elif key not in self.rows:
            self.texts += 1
            self._write("insert", key, (f"text {self.texts}", self.texts), xid)
        elif choice < 0.25:
            del self.rows[key]
            self.log.append(("delete", key, None, None, xid))
        elif choice < 0.6:
            self._update(key, xid)
        else:
            self._move(key, xid)

    def _update(self, key: int, xid: int) -> None:
        self.texts += 1
        text, _ = self.rows[key]
        is_sent = self.random.random() < 0.3
        row = (f"text {self.texts}" if is_sent else text, self.texts)
        self._write("update", key, row, xid, is_sent=is_sent)

    def _move(self, key: int, xid: int) -> None:
        free = [one for one in range(6) if one not in self.rows]
        if not free:
            return
        row = self.rows.pop(key)
        self.log.append(("delete", key, None, None, xid))
        self._write("moved", self.random.choice(free), row, xid, is_sent=False)

    def _write(
        self, op: str, key: int, row: tuple[str, int], xid: int, *, is_sent: bool = True
    ) -> None:
        self.rows[key] = row
        self.log.append((op, key, row[0] if is_sent else UNSENT, row[1], xid))


@dataclass
class Lake:
    rows: dict[int, tuple[Any, ...]]

    def apply(self, parts: list[Part]) -> None:
        if not parts:
            return
        merged = merge(parts, SHAPE)
        found = pa.table(
            {
                "c0": pa.array(self.rows, pa.int64()),
                "c1": pa.array([row[0] for row in self.rows.values()], pa.string()),
                "c2": pa.array(
                    [row[1] for row in self.rows.values()], pa.decimal128(9, 2)
                ),
            }
        )
        filled = Merged(merged.filled(SHAPE, found), merged.is_emptied)
        if merged.is_emptied:
            self.rows.clear()
        for key, row in seen(filled).items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row


def split(random: random.Random, some: Sequence[Any], most: int) -> list[list[Any]]:
    cuts = sorted(
        random.randrange(len(some) + 1) for _ in range(random.randrange(most))
    )
    return [
        list(some[a:b]) for a, b in zip([0, *cuts], [*cuts, len(some)], strict=True)
    ]


def pairs(log: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """What is never in two parts: a moved row and the delete before it."""
    found: list[list[tuple[Any, ...]]] = []
    for change in log:
        if change[0] == "moved":
            found[-1].append(change)
        else:
            found.append([change])
    return found


@pytest.mark.parametrize("seed", first_then_long(*range(20), first=4))
def test_random_histories_end_as_the_source(seed: int) -> None:
    """In any number of segments and commits, behind a load at any moment: the load
    shows transactions that the log has once more."""
    chance = random.Random(seed)
    for _ in range(100):
        source = Source(chance)
        for xid in range(10, 10 + chance.randrange(3)):
            source.change(xid)
        # what committed before the cut is not in the log that is read
        source.log.clear()
        shown, loaded = set(), dict(source.rows)
        is_loaded = chance.random() < 0.3
        for xid in chance.sample(range(20, 40), chance.randrange(1, 16)):
            for _ in range(chance.randrange(1, 4)):
                source.change(xid)
            if not is_loaded:
                shown.add(xid)
                loaded = dict(source.rows)
                is_loaded = chance.random() < 0.3
        lake = Lake({key: (text, Decimal(n)) for key, (text, n) in loaded.items()})
        running = ",".join(str(xid) for xid in range(20, 40) if xid not in shown)
        number = 0
        for commit in split(chance, pairs(source.log), 4):
            parts = []
            for segment in split(chance, commit, 4):
                number += 1
                told = rows_of([change for pair in segment for change in pair])
                parts.append(Part(number, without_shown(told, f"20:40:{running}")))
            lake.apply([one for one in parts if one.rows.num_rows])
        assert lake.rows == {
            k: (text, Decimal(n)) for k, (text, n) in source.rows.items()
        }


@pytest.mark.parametrize("seed", first_then_long(*range(10), first=2))
def test_random_histories_of_shards_end_as_each_of_them(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        shards = {"a": Source(chance), "b": Source(chance)}
        log: list[tuple[Any, ...]] = []
        for _ in range(chance.randrange(1, 60)):
            name, shard = chance.choice([*shards.items()])
            shard.log.clear()
            shard.change(9)
            log += [(op, name, *values) for op, *values in shard.log]
        lake: dict[tuple[str, int], tuple[Any, ...]] = {}
        number = 0
        for commit in split(chance, pairs(log), 4):
            parts = []
            for segment in split(chance, commit, 4):
                number += 1
                told = [change for pair in segment for change in pair]
                parts.append(Part(number, rows_of(told, SHARDED_COLUMNS)))
            if parts := [one for one in parts if one.rows.num_rows]:
                lake = applied(lake, parts)
        assert lake == {
            (name, key): (text, Decimal(n))
            for name, shard in shards.items()
            for key, (text, n) in shard.rows.items()
        }


def applied(
    lake: dict[tuple[str, int], tuple[Any, ...]], parts: list[Part]
) -> dict[tuple[str, int], tuple[Any, ...]]:
    merged = merge(parts, SHARDED)
    rows = [("insert", *key, *row) for key, row in lake.items()]
    found = rows_of(rows, SHARDED_COLUMNS).select(["c0", "c1", "c2", "c3"])
    after = {k: row for k, row in lake.items() if k[0] not in merged.emptied}
    for row in merged.filled(SHARDED, found).to_pylist():
        key = row["c0"], row["c1"]
        after.pop(key, None)
        if row["op"] != "delete":
            after[key] = row["c2"], row["c3"]
    return after


def test_rows_from_before_a_column_have_what_its_default_gave() -> None:
    """In one batch; behind rows that have it none may lack it."""
    older = {"amount": pa.scalar(Decimal("7.50"), pa.decimal128(9, 2))}
    shape = replace(SHAPE, added=older)
    before = rows_of([("insert", 1, "a"), ("insert", 2, "b")], (ID, LONG))
    after = rows_of([("update", 2, "c", Decimal(1)), ("insert", 3, "d", None)])
    merged = merge([Part(4, before), Part(5, after)], shape)
    assert merged.rows["c2"].to_pylist() == [Decimal("7.50"), Decimal(1), None]
    assert merged.carried == {"id", "long", "amount"}
    for parts, known in (
        ([Part(4, after), Part(5, before)], shape),
        ([Part(5, before)], shape.carrying(merged.carried)),
        ([Part(5, before)], SHAPE),
    ):
        with pytest.raises(TerminalError) as caught:
            merge(parts, known)
        assert caught.value.code == "segment_lacks_columns"


def test_shards_get_a_column_one_by_one() -> None:
    more = SealedColumn("c4", "n", "int")
    older = {"n": pa.scalar(5, pa.int32())}
    shape = replace(SHARDED, columns=(*SHARDED_COLUMNS, more), added=older)
    has = rows_of([("insert", "1", 1, "a", 0, 6)], shape.columns)
    lacks = rows_of([("insert", "2", 1, "b", 0)], SHARDED_COLUMNS)
    merged = merge([Part(4, has), Part(5, lacks)], shape)
    assert merged.rows["c4"].to_pylist() == [6, 5]
    behind = merge([Part(6, lacks)], shape.carrying(merged.carried))
    assert behind.rows["c4"].to_pylist() == [5]


def test_what_rows_have_beyond_the_plan_is_left() -> None:
    more = SealedColumn("c3", "extra", "int")
    rows = rows_of([("insert", 1, "a", Decimal(1), 5)], (*COLUMNS, more))
    assert "c3" not in merge([Part(4, rows)], SHAPE).rows.column_names


def test_an_older_value_is_what_the_log_would_have_sent() -> None:
    column = ColumnSpec("at", "at", "timestamp without time zone", "timestamp_ntz")
    assert older_value(column).as_py() is None
    found = older_value(replace(column, older="2024-02-29 12:00:00"))
    assert found.as_py().isoformat() == "2024-02-29T12:00:00"
