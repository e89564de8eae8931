"""Shards between a log's reader and its follower: one that comes to a table belongs to
it once all of it comes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

import pyarrow as pa
import pytest

from ingest.contract.following import SourceLog
from ingest.contract.segments import OPS
from ingest.contract.table import SHARD, ColumnSpec, Gone, ShardSpec, TableSpec
from ingest.sources.port import LogReader, LogRows
from ingest.sources.row_batches import schema_of
from ingest.sources.sharded_log import ShardedLog, Shards, shards_in

TABLE = 7


def table(*names: str) -> TableSpec:
    columns = (ColumnSpec(SHARD, "s", "", "string"), ColumnSpec("id", "id", "", "int"))
    shards = tuple(ShardSpec(name, "o", name) for name in names)
    key = (SHARD, "id")
    return TableSpec(
        TABLE, names[0], "o", "db", "o", "/x", "", columns, key, shards=shards
    )


@dataclass
class Reader:
    """Says what a test wants; positions are numbers."""

    at: int = 0
    end: int = 0
    names: dict[str, int] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    passed_over: dict[int, str] = field(default_factory=dict)
    rows: list[LogRows] = field(default_factory=list)
    anew: list[set[str]] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    older: dict[int, dict[str, str | None]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    is_within: bool = False
    size: int = 0

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.names = {one.source_schema: one.table_id for one in tables}
        of = {number: name for name, number in self.names.items()}
        self.anew.append({of[number] for number in anew})
        self.problems = {k: v for k, v in self.problems.items() if k not in anew}

    @property
    def identities(self) -> dict[int, str]:
        return {number: f"is {name}" for name, number in self.names.items()}

    def lost(self) -> dict[int, str]:
        found, self.passed_over = self.passed_over, {}
        return found

    def here(self) -> str:
        return str(self.end)

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        return int(at or self.at) >= int(wanted)

    def acknowledge(self, position: str) -> None:
        pass

    @property
    def gone(self) -> dict[int, tuple[str, ...]]:
        return {n: (s,) for s, n in self.names.items() if s in self.absent}

    def take(self) -> list[LogRows]:
        found, self.rows = self.rows, []
        return found

    def look(self) -> SourceLog:
        return SourceLog()

    def has(self, name: str, op: str = "insert") -> None:
        values = [[OPS.index(op)], [0], [None]]
        schema = schema_of((), [], 0)
        arrays = [pa.array(v, f.type) for v, f in zip(values, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self.rows.append(LogRows(self.names[name], 1, batch))


@dataclass
class Followed:
    reader: Reader
    log: ShardedLog

    def identity(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.log.identities[TABLE])
        return found

    def taken(self) -> int:
        return sum(rows.batch.num_rows for rows in self.log.take())


@pytest.fixture
def followed() -> Followed:
    """Two shards are known to the stream, and a third is taken up at 5 of 9."""
    reader = Reader(at=5, end=9)
    log = ShardedLog(cast("LogReader", cast("Any", reader)), Shards())
    log.follow([table("a", "b")])
    loaded = dict(log.identities)
    log.follow([table("a", "b", "c")], loaded=loaded)
    assert reader.anew[-1] == {"c"}
    return Followed(reader, log)


def test_it_belongs_to_the_table_once_the_log_was_read_beyond_where_it_ended(
    followed: Followed,
) -> None:
    assert followed.identity() == {"a.o": "is a", "b.o": "is b"}
    followed.reader.at = 9
    assert followed.identity() == {"a.o": "is a", "b.o": "is b", "c.o": "is c"}


def test_what_came_of_it_before_does_not_matter(followed: Followed) -> None:
    reader, log = followed.reader, followed.log
    c, a = reader.names["c"], reader.names["a"]
    reader.has("c")
    reader.has("c", "truncate")
    reader.has("a")
    reader.passed_over = {c: "was not in the publication"}
    reader.problems = {c: "was made again"}
    assert followed.taken() == 1
    assert (log.lost(), log.problems) == ({}, {})
    reader.problems = {a: "is gone"}
    assert log.problems == {TABLE: "is gone"}
    # noted before it is admitted, asked for behind that
    reader.problems, reader.passed_over, reader.at = {}, {c: "early"}, 9
    assert len(followed.identity()) == 3
    assert log.lost() == {}


def test_from_then_on_it_is_as_the_others(followed: Followed) -> None:
    reader, log = followed.reader, followed.log
    reader.at = 9
    assert len(followed.identity()) == 3
    reader.has("c")
    reader.has("c", "truncate")
    reader.has("a")
    rows = [one.batch.to_pylist()[0] for one in log.take()]
    # what empties it empties no other
    assert [(OPS[one["op"]], one["c0"]) for one in rows] == [
        ("insert", "c"), ("truncate", "c"), ("insert", "a"),
    ]  # fmt: skip
    reader.problems = {reader.names["c"]: "is gone"}
    assert log.problems == {TABLE: "is gone"}


def test_one_whose_rows_do_not_come_is_taken_up_again(followed: Followed) -> None:
    reader, log = followed.reader, followed.log
    reader.problems, reader.at = {reader.names["c"]: "may not be read"}, 9
    assert len(followed.identity()) == 2
    times = len(reader.anew)
    reader.is_within = True
    log.look()
    reader.is_within, reader.size = False, 1
    log.look()
    assert len(reader.anew) == times, "there is something to take"
    reader.size, reader.end = 0, 12
    log.look()
    assert reader.anew[-1] == {"c"}
    assert len(followed.identity()) == 2
    reader.at = 12
    assert len(followed.identity()) == 3


def test_a_new_load_has_all_from_its_beginning_on(followed: Followed) -> None:
    followed.log.follow([table("a", "b", "c")], anew=[TABLE])
    assert len(followed.identity()) == 3


def test_who_takes_over_before_the_record_takes_it_up_again(
    followed: Followed,
) -> None:
    recorded = json.dumps(followed.identity())
    assert shards_in(recorded) == {"a.o", "b.o"}
    reader = Reader(at=5, end=20)
    log = ShardedLog(cast("LogReader", cast("Any", reader)), Shards())
    log.follow([table("a", "b", "c")], loaded={TABLE: recorded})
    again = Followed(reader, log)
    reader.at = 9
    assert len(again.identity()) == 2
    reader.at = 20
    assert len(again.identity()) == 3
    # and who takes over behind it has it
    log.follow([table("a", "b", "c")], loaded=dict(log.identities))
    assert len(again.identity()) == 3


def marked(spec: TableSpec, gone: Gone, *names: str) -> TableSpec:
    """The plan says of these that they are gone."""
    shards = tuple(
        replace(one, gone=gone) if one.value in names else one for one in spec.shards
    )
    return replace(spec, shards=shards)


def test_one_that_is_gone_is_no_problem_of_the_others_and_said_once_all_is_durable(
    followed: Followed,
) -> None:
    reader, log = followed.reader, followed.log
    reader.at, b = 9, reader.names["b"]
    assert len(followed.identity()) == 3
    reader.absent, reader.problems = {"b"}, {b: "is gone"}
    reader.passed_over, reader.end = {b: "is gone"}, 12
    assert (log.problems, log.lost(), log.gone) == ({}, {}, {})
    # what came of it before is taken
    reader.at = 13
    reader.has("b")
    assert followed.taken() == 1
    assert log.gone == {}
    log.acknowledge("11")
    assert log.gone == {}
    log.acknowledge("12")
    assert log.gone == {TABLE: ("b.o",)}
    # and what comes under its name is another's
    reader.has("b")
    reader.has("a")
    assert followed.taken() == 1
    assert (log.problems, log.lost()) == ({}, {})


def test_a_list_without_one_that_is_gone_finds_no_loss_that_a_look_has_said(
    followed: Followed,
) -> None:
    """The list comes between that look and whoever asks what was lost."""
    reader, log = followed.reader, followed.log
    reader.at = 9
    known = {TABLE: json.dumps(followed.identity())}
    reader.absent = {"b"}
    reader.passed_over = reader.problems = {reader.names["b"]: "is gone"}
    three = table("a", "b", "c")
    log.follow([marked(three, "undecided", "b")], loaded=known)
    reader.problems = {}
    assert reader.names.keys() == {"a", "c"}
    assert (log.lost(), log.problems) == ({}, {})


def test_a_table_that_has_none_of_them_any_more_has_that_problem(
    followed: Followed,
) -> None:
    reader, log = followed.reader, followed.log
    reader.at = 9
    assert len(followed.identity()) == 3
    reader.absent = {"a", "b", "c"}
    reader.problems = {reader.names[name]: "is gone" for name in reader.absent}
    log.acknowledge("99")
    assert (log.problems, log.gone) == ({TABLE: "is gone"}, {})


def test_rows_of_one_that_is_gone_go_by_the_stream_once(followed: Followed) -> None:
    """Whoever dies before that is durable says it again."""
    reader, log = followed.reader, followed.log
    three, known = table("a", "b", "c"), '{"a.o": "is a", "b.o": "is b"}'
    log.follow([marked(three, "undecided", "b")], loaded={TABLE: known})
    assert reader.names.keys() == {"a", "c"}
    reader.at = 99
    identity = log.identities[TABLE]
    assert json.loads(identity) == {"a.o": "is a", "b.o": "", "c.o": "is c"}
    assert shards_in(identity) == {"a.o", "c.o"}
    assert log.take() == []
    for _ in range(2):
        log.follow([marked(three, "deleted", "b")], loaded={TABLE: identity})
        (rows,) = log.take()
        (row,) = rows.batch.to_pylist()
        assert (rows.table_id, OPS[row["op"]], row["c0"]) == (TABLE, "truncate", "b")
        assert log.take() == []
    now = log.identities[TABLE]
    assert json.loads(now).keys() == {"a.o", "c.o"}
    log.follow([marked(three, "deleted", "b")], loaded={TABLE: now})
    assert log.take() == []


def test_one_that_was_gone_and_comes_again_is_a_new_one(followed: Followed) -> None:
    reader, log = followed.reader, followed.log
    known = '{"a.o": "is a", "b.o": "", "c.o": "is c"}'
    three = table("a", "b", "c")
    shards = tuple(replace(one, is_unread=one.value == "b") for one in three.shards)
    log.follow([replace(three, shards=shards)], loaded={TABLE: known})
    reader.at = reader.end = 20
    assert reader.anew[-1] == {"b"}
    assert len(followed.identity()) == 3


def test_who_reads_on_behind_the_end_of_one_does_not_take_another_for_it(
    followed: Followed,
) -> None:
    """MariaDB's log had DROP, CREATE and rows, all of it is durable, and the plan does
    not know yet: the last reader died, or the list changes for another reason."""
    reader, log = followed.reader, followed.log
    reader.at, b = 9, reader.names["b"]
    assert len(followed.identity()) == 3
    reader.absent, reader.dropped, reader.problems = {"b"}, {b}, {b: "was dropped"}
    # with what came before it
    reader.has("b")
    assert followed.taken() == 1
    known = log.identities[TABLE]
    assert json.loads(known) == {"a.o": "is a", "b.o": "", "c.o": "is c"}
    again = Reader(at=20, end=20)
    other = ShardedLog(cast("LogReader", cast("Any", again)), Shards())
    other.follow([table("a", "b", "c")], loaded={TABLE: known})
    reader.absent, reader.dropped, reader.problems = set(), set(), {}
    log.follow([replace(table("a", "b", "c"), schema_version=2)], loaded={TABLE: known})
    for one, its in ((other, again), (log, reader)):
        assert its.anew[-1] == set()
        its.has("a")
        its.has("b")
        assert sum(rows.batch.num_rows for rows in one.take()) == 1
        assert one.identities[TABLE] == known
        assert one.gone == {TABLE: ("b.o",)}
        assert one.problems == {}
        one.follow(
            [marked(table("a", "b", "c"), "undecided", "b")], loaded={TABLE: known}
        )
        assert (one.gone, one.identities[TABLE]) == ({}, known)


def test_what_columns_gave_to_older_rows_counts_where_all_shards_agree() -> None:
    reader = Reader()
    log = ShardedLog(cast("LogReader", reader), Shards())
    log.follow([table("a", "b", "c")])
    a, b, c = (reader.names[name] for name in "abc")
    reader.older = {a: {"x": "5", "y": "5"}, b: {"x": "5", "y": None}, c: {"z": None}}
    assert log.older == {TABLE: {"x": "5", "z": None}}
