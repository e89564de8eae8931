"""Segments of a log, applied to lake tables on real parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from py4j.protocol import Py4JJavaError

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.applying import COLUMNS_UNDECIDED, NEEDS_RESYNC
from ingest.contract.segments import Control
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.apply import log_apply, log_read, writer
from ingest.driver.apply.log_apply import LogTable, Step
from ingest.driver.apply.log_read import Stream
from ingest.driver.jvm import failure_of
from ingest.driver.table_services.compaction import plan_when_due
from ingest.lake.chain import collect, take_over
from ingest.lake.hudi.options import LoadPoint
from ingest.lake.segment_files import SegmentBuilder
from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import NAME, SERVER, UNSENT, LogBench, cut, place
from tests.spark.test_light_commits import EVERY_TYPE, changed_types, whole
from tests.spark.test_odd_values import planned
from tests.spark.test_repair import mend

CREATE = "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
ROWS = "INSERT INTO o SELECT g, 'load', '2024-01-01' FROM generate_series(1, 6) g"
AT = "2024-02-29 12:34:56.123456+00"


@dataclass
class Followed:
    """A loaded table that is followed by a stream of the test."""

    log: LogBench
    table: TableSpec
    applied: LogTable
    stream: Stream

    def apply(self) -> Step:
        while self.stream.refresh():
            pass
        return self.applied.bring_on(self.stream, lambda: None)

    def rows(self) -> dict[int, str | None]:
        return dict(self.log.bench.rows(self.table, "id", "v"))

    @property
    def commits(self) -> int:
        return len(self.log.bench.state(self.table).commits)


@pytest.fixture
def followed(lake_bench: LakeBench, beginnings: Beginnings, tmp_path: Path) -> Followed:
    table, _ = beginnings.copy(lake_bench, loaded_from(CREATE, ROWS))
    log = LogBench(lake_bench)
    assert log.close(*cut(table)).number == 1
    applied = log.table(table, tmp_path / "scratch")
    return Followed(log, table, applied, log.stream())


def test_what_waits_is_one_commit(followed: Followed) -> None:
    log, table = followed.log, followed.table
    log.segment(table, ("update", 1, "one", AT), ("delete", 2, None, None))
    log.close()
    last = log.segment(
        table,
        ("update", 1, "two", AT), ("insert", 9, "nine", AT),
        ("delete", 3, None, None), ("moved", 7, "moved", AT),
        ("insert", 8, None, AT), ("delete", 8, None, None),
    )  # fmt: skip
    end = log.close()
    step = followed.apply()
    assert (step.rows, step.committed) == (8, 1)
    assert followed.rows() == {
        1: "two", 4: "load", 5: "load", 6: "load", 7: "moved", 9: "nine"
    }  # fmt: skip
    position = log.bench.state(table).position
    assert position is not None
    assert (position.epoch_from, position.epoch_to) == (2, end.number)
    assert (position.end, position.run) == (end.end, "session")
    assert position.epoch_to == last.number + 1
    commits = followed.commits
    assert followed.apply().commit is None, "nothing waits"
    log.close()
    assert followed.apply().commit is None, "nothing of the table came"
    assert followed.commits == commits
    log.segment(table, ("insert", 2, "again", AT), ("update", 7, "x", "infinity"))
    step = followed.apply()
    assert step.commit is not None
    assert step.lossy == {"at": 1}
    assert followed.rows()[2] == "again"
    assert followed.rows()[7] == "x"
    assert not followed.applied.scratch.exists()
    assert_done(log.bench.compact(table))
    log.segment(table, ("delete", 7, None, None))
    assert followed.apply().commit is not None
    assert sorted(followed.rows()) == [1, 2, 4, 5, 6, 9]


def test_what_the_log_did_not_send_is_the_lakes(followed: Followed) -> None:
    """Under the key that the row had then; a NULL there is one here."""
    log, table = followed.log, followed.table
    log.segment(table, ("update", 1, None, AT))
    followed.apply()
    log.segment(
        table,
        ("update", 1, UNSENT, AT), ("update", 2, UNSENT, AT), ("update", 3, "sent", AT),
        ("update", 3, UNSENT, AT), ("delete", 4, None, None), ("moved", 40, UNSENT, AT),
    )  # fmt: skip
    log.segment(table, ("delete", 40, None, None), ("moved", 41, UNSENT, AT))
    followed.apply()
    assert followed.rows() == {
        1: None, 2: "load", 3: "sent", 5: "load", 6: "load", 41: "load"
    }  # fmt: skip
    log.segment(table, ("update", 99, UNSENT, AT))
    with pytest.raises(TerminalError, match="the lake has no such rows") as missing:
        followed.apply()
    assert missing.value.code == "row_missing"


def test_rows_of_two_versions_are_one_commit(followed: Followed) -> None:
    """They wait until the plan has what the later ones have. The earlier ones, and what
    the lake has, get what the column's default gave to them."""
    log, table = followed.log, followed.table
    n = ColumnSpec("n", "n", "integer", "bigint", older="7")
    more = replace(table, columns=(*table.columns, n))
    log.segment(table, ("update", 1, "before", AT), ("delete", 6, None, None))
    log.change(table, ("update", 2, "between", AT), ("insert", 8, "between", AT))
    log.change(more, ("update", 2, "behind", AT, "8"), ("update", 3, UNSENT, AT, None))
    log.close()
    ahead = followed.applied
    assert followed.apply().rows == 2
    with pytest.raises(TransientError) as caught:
        followed.apply()
    assert caught.value.code == COLUMNS_UNDECIDED
    assert ahead.has_columns
    followed.applied = log.table(more, ahead.scratch)
    assert followed.apply().rows == 4
    assert followed.applied.has_columns
    found = {row[0]: row[1:] for row in log.bench.rows(more, "id", "v", "n")}
    assert found == {
        1: ("before", 7), 2: ("behind", 8), 3: ("load", None), 4: ("load", 7),
        5: ("load", 7), 8: ("between", 7),
    }  # fmt: skip
    log.segment(more, ("update", 4, "next", AT, "9"))
    assert followed.apply().rows == 1
    log.segment(table, ("update", 4, "late", AT))
    with pytest.raises(TerminalError, match="without the columns n"):
        followed.apply()


def test_rows_behind_a_dropped_column_wait_until_the_plan_keeps_it_as_null(
    followed: Followed,
) -> None:
    log, table = followed.log, followed.table
    less = replace(table, columns=tuple(c for c in table.columns if c.name != "v"))
    log.segment(table, ("update", 1, "before", AT), ("update", 2, "before", AT))
    log.change(less, ("update", 2, AT), ("insert", 8, AT), gone=["v"])
    log.change(less, ("delete", 6, None), gone=["v"])
    log.close()
    assert followed.apply().rows == 2
    with pytest.raises(TransientError) as caught:
        followed.apply()
    assert caught.value.code == COLUMNS_UNDECIDED
    kept = tuple(c for c in table.columns if c.name == "v")
    plan = replace(less, kept=kept, schema_version=2)
    followed.applied = log.table(plan, followed.applied.scratch)
    assert followed.apply().rows == 3
    log.segment(plan, ("update", 3, AT))
    assert followed.apply().rows == 1
    assert followed.rows() == {
        1: "before", 2: None, 3: None, 4: "load", 5: "load", 8: None,
    }  # fmt: skip


def test_rows_of_before_a_column_may_be_more_than_a_commit_takes(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the lake has by then is not written anew; and a session that begins between
    knows it, too."""
    monkeypatch.setattr(log_read, "MOST_ROWS", 1)
    log, table = followed.log, followed.table
    n = ColumnSpec("n", "n", "integer", "bigint", older="7")
    more = replace(table, columns=(*table.columns, n))
    log.segment(table, ("update", 1, "before", AT))
    log.segment(table, ("update", 2, "before", AT))
    log.segment(table, ("insert", 8, "before", AT))
    log.segment(more, ("update", 2, UNSENT, AT, "8"))
    log.segment(more, ("update", 3, UNSENT, AT, None))
    scratch = followed.applied.scratch
    for count in range(5):
        if count in {0, 2}:
            followed.applied = log.table(more, scratch)
        assert followed.apply().rows == 1
    found = {row[0]: row[1:] for row in log.bench.rows(more, "id", "v", "n")}
    assert found == {
        1: ("before", 7), 2: ("before", 8), 3: ("load", None), 4: ("load", 7),
        5: ("load", 7), 6: ("load", 7), 8: ("before", 7),
    }  # fmt: skip
    log.segment(table, ("update", 4, "late", AT))
    with pytest.raises(TerminalError, match="without the columns n"):
        followed.apply()


def test_a_new_column_comes_without_a_row(followed: Followed) -> None:
    log, table = followed.log, followed.table
    more = replace(
        table, columns=(*table.columns, ColumnSpec("n", "n", "integer", "int"))
    )
    followed.applied = log.table(more, followed.applied.scratch)
    end = log.close()
    assert followed.apply().commit is not None
    assert followed.applied.has_columns
    assert followed.applied.after == end.number
    log.segment(more, ("update", 4, UNSENT, AT, "9"))
    followed.apply()
    found = {row[0]: row[1:] for row in log.bench.rows(more, "id", "v", "n")}
    assert (found[4], found[5]) == (("load", 9), ("load", None))


@pytest.mark.parametrize(
    "rows", [[], [("insert", 3, "new", AT), ("insert", 4, "x", AT)]]
)
def test_a_truncated_table_is_what_came_behind_that(
    followed: Followed, rows: list[tuple[Any, ...]]
) -> None:
    log, table = followed.log, followed.table
    log.segment(table, ("insert", 9, "gone", AT), ("truncate", None, None, None), *rows)
    if rows:
        log.segment(table, ("delete", 4, None, None), ("update", 3, UNSENT, AT))
    assert followed.apply().commit is not None
    assert followed.rows() == ({3: "new"} if rows else {})
    newest = log.bench.state(table).commits[0]
    assert newest.operation == "INSERT_OVERWRITE_TABLE"
    log.segment(table, ("insert", 5, "later", AT), ("delete", 3, None, None))
    followed.apply()
    assert followed.rows() == {5: "later"}


def test_a_truncation_leaves_planned_compactions_alone(followed: Followed) -> None:
    """They speak of file groups that a replacement would take away."""
    log, table = followed.log, followed.table
    log.segment(table, ("insert", 9, "x", AT))
    followed.apply()
    plan_when_due(log.bench.spark, replace(followed.applied.spec, compact_after=1))
    log.segment(
        table,
        ("insert", 8, "gone", AT), ("truncate", None, None, None),
        ("insert", 3, "new", AT), ("insert", 4, "x", AT), ("delete", 4, None, None),
    )  # fmt: skip
    followed.apply()
    assert followed.rows() == {3: "new"}
    (pending,) = log.bench.state(table).pending_compactions
    assert_done(log.bench.compact(table, pending))
    assert followed.rows() == {3: "new"}
    log.segment(table, ("insert", 9, "again", AT))
    followed.apply()
    assert followed.rows() == {3: "new", 9: "again"}


def test_no_truncation_replaces_what_a_new_plan_speaks_of(followed: Followed) -> None:
    """Somebody plans a compaction behind the last look at the timeline."""
    log, table, applied = followed.log, followed.table, followed.applied
    log.segment(table, ("insert", 9, "x", AT))
    followed.apply()
    log.segment(table, ("truncate", None, None, None), ("insert", 3, "new", AT))
    followed.stream.refresh()

    def plan() -> None:
        plan_when_due(log.bench.spark, replace(applied.spec, compact_after=1))

    with pytest.raises(Py4JJavaError) as refused:
        applied.bring_on(followed.stream, plan)
    failure = failure_of(refused.value)
    assert (failure.outcome, failure.error.code) == ("transient", "compaction_planned")
    applied.forget()
    assert followed.apply().commit is not None
    (pending,) = log.bench.state(table).pending_compactions
    assert_done(log.bench.compact(table, pending))
    assert followed.rows() == {3: "new"}


def test_what_a_load_shows_is_left_out(followed: Followed) -> None:
    """Transactions 7 and 9 are in the load, which was read at 1050; 8 is not."""
    log, table, applied = followed.log, followed.table, followed.applied
    applied.take()
    point = LoadPoint(place(1050), "8:10:8")
    assert applied.state is not None
    assert applied.position is not None
    position = msgspec.structs.replace(applied.position, load=point)
    applied.state = replace(applied.state, position=position)
    log.segment(table, ("update", 1, "seven", AT), ("update", 2, "seven", AT), xid=7)
    step = followed.apply()
    assert step.commit is not None, "nothing waits for these segments any more"
    assert not applied.is_live(followed.stream)
    log.segment(table, ("update", 1, "eight", AT), xid=8)
    followed.apply()
    log.segment(table, ("update", 2, "nine", AT), ("delete", 3, None, None), xid=9)
    followed.apply()
    assert applied.position is not None
    assert applied.position.load == point
    assert log.bench.state(table).position == applied.position
    # begins at 1040, before the load
    log.segment(table, ("update", 4, "ten", AT), xid=10)
    assert followed.apply().commit is not None
    assert applied.position.load is None
    assert applied.is_live(followed.stream)
    assert log.bench.state(table).position == applied.position
    # the source's numbers come again after some billions: it is no question any more
    log.segment(table, ("update", 5, "seven", AT), xid=7)
    followed.apply()
    assert followed.rows() == {
        1: "eight", 2: "load", 3: "load", 4: "ten", 5: "seven", 6: "load"
    }  # fmt: skip


def test_a_table_whose_load_is_on_the_way_is_left_alone(followed: Followed) -> None:
    log, table = followed.log, followed.table
    log.close(*cut(table, load="another"))
    log.segment(table, ("update", 1, "x", AT))
    assert followed.apply() == Step()
    assert followed.rows()[1] == "load"


def test_a_table_that_nobody_follows_is_left_alone(followed: Followed) -> None:
    log, table = followed.log, followed.table
    log.close(Control("removed", table.table_id))
    log.segment(table, ("update", 1, "x", AT))
    assert followed.apply() == Step()


def test_segments_that_are_gone_mean_a_resync(followed: Followed) -> None:
    log, table = followed.log, followed.table
    last = log.segment(table, ("update", 1, "x", AT))
    log.close()
    while followed.stream.refresh():
        pass
    collect(followed.stream.index, first=last.number + 1, needs={})
    with pytest.raises(TerminalError, match="are missing") as lost:
        followed.apply()
    assert lost.value.code == NEEDS_RESYNC
    assert followed.rows()[1] == "load"


def test_a_table_that_is_ahead_of_its_stream_waits(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage lost a segment that was being made when its power failed."""
    log, table = followed.log, followed.table
    log.segment(table, ("update", 1, "x", AT))
    followed.apply()
    lost = log.segment(table, ("update", 2, "x", AT))
    followed.apply()
    (log.folder / f"{lost.number:012d}.seg").delete()
    followed.stream = log.stream()
    assert followed.apply() == Step()
    monkeypatch.setattr(log_apply, "AHEAD_SECONDS", -1.0)
    with pytest.raises(TransientError, match="its stream ends at 2") as ahead:
        followed.apply()
    assert ahead.value.code == "table_ahead"
    # its next writer makes the number again, and reads on from the segment before
    log.writer = take_over(
        log.folder, stream=NAME, writer="next", server=SERVER, begin=place(0)
    )
    log.builder = SegmentBuilder(log.writer)
    log.segment(table, ("update", 2, "x", AT), ("update", 3, "x", AT))
    assert followed.apply().commit is not None
    assert {followed.rows()[key] for key in (1, 2, 3)} == {"x"}


@pytest.mark.parametrize("most", [1, 3])
def test_a_large_backlog_is_taken_in_bounded_steps(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    log, table = followed.log, followed.table
    for number in range(4):
        log.segment(
            table, ("update", 1, f"v{number}", AT), ("insert", 10 + number, "x", AT)
        )
    end = log.close()
    monkeypatch.setattr(log_read, "MOST_ROWS", most)
    commits = 0
    while followed.apply().commit is not None:
        commits += 1
    assert commits == {1: 4, 3: 2}[most]
    assert followed.rows()[1] == "v3"
    assert followed.rows().keys() >= {10, 11, 12, 13}
    position = log.bench.state(table).position
    assert position is not None
    assert (position.epoch_to, position.end) == (end.number, end.end)


def test_a_large_transaction_is_merged_piece_by_piece(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_read, "PIECE_BYTES", 1)
    log, table = followed.log, followed.table
    log.builder.spill_bytes = 1
    for changes in (
        [("update", 1, "one", AT), ("insert", 10, "ten", AT), ("insert", 11, "x", AT)],
        [
            ("update", 1, UNSENT, AT),
            ("update", 2, UNSENT, AT),
            ("delete", 11, None, None),
        ],
        [
            ("delete", 10, None, None),
            ("moved", 12, UNSENT, AT),
            ("update", 1, "two", AT),
        ],
        [
            ("delete", 3, None, None),
            ("update", 2, "two", AT),
            ("update", 2, UNSENT, AT),
        ],
    ):
        log.change(table, *changes)
    log.close()
    assert followed.apply().commit is not None
    assert followed.rows() == {
        1: "two", 2: "two", 4: "load", 5: "load", 6: "load", 12: "ten"
    }  # fmt: skip
    log.change(table, ("insert", 20, "x", AT))
    log.change(table, ("truncate", None, None, None), ("insert", 21, "kept", AT))
    log.change(table, ("update", 21, UNSENT, AT), ("insert", 22, "x", AT))
    log.change(table, ("delete", 22, None, None))
    log.close()
    assert followed.apply().commit is not None
    assert followed.rows() == {21: "kept"}


def test_many_rows_go_by_spark(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_ROWS", 0)
    log, table = followed.log, followed.table
    log.segment(table, ("update", 1, "one", AT), ("delete", 2, None, None))
    log.segment(table, ("insert", 2, "again", AT), ("delete", 3, None, None))
    followed.apply()
    assert followed.rows() == {
        1: "one", 2: "again", 4: "load", 5: "load", 6: "load"
    }  # fmt: skip


def test_a_restored_table_goes_on_from_where_it_is(followed: Followed) -> None:
    log, table, bench = followed.log, followed.table, followed.log.bench
    log.segment(table, ("update", 1, "one", AT))
    followed.apply()
    kept = assert_done(mend(bench, table, "savepoint")).facts["savepoint"]
    log.segment(table, ("update", 1, "two", AT), ("delete", 2, None, None))
    followed.apply()
    assert 2 not in followed.rows()
    assert_done(mend(bench, table, "restore", kept))
    assert 2 in followed.rows()
    log.segment(table, ("update", 3, "three", AT))
    # as the lake says, whatever was remembered
    followed.apply()
    assert followed.rows() == {
        1: "two", 3: "three", 4: "load", 5: "load", 6: "load"
    }  # fmt: skip


@dataclass
class Partitioned:
    """A table whose partitions are the day of a column, and a text, beside the key."""

    log: LogBench
    table: TableSpec
    applied: LogTable
    stream: Stream

    def apply(self, *changes: tuple[Any, ...]) -> dict[int, str]:
        """Key → day, hour and text of each row behind them."""
        self.log.segment(self.table, *changes)
        while self.stream.refresh():
            pass
        assert self.applied.bring_on(self.stream, lambda: None).commit is not None
        rows = self.log.bench.rows(self.table, "id", "at", "area")
        assert len({row[0] for row in rows}) == len(rows)
        return {row[0]: f"{row[1]:%d %H} {row[2] or ''}" for row in rows}


@pytest.fixture
def partitioned(lake_bench: LakeBench, tmp_path: Path) -> Partitioned:
    lake_bench.sql("CREATE TABLE o (id int PRIMARY KEY, at timestamptz, area text)")
    lake_bench.sql(
        "INSERT INTO o SELECT g, '2024-01-01 10:00+00', 'a' FROM generate_series(1, 6) g"
    )
    table = lake_bench.table("o", partition_by=("at", "area"), buckets=1)
    assert_done(lake_bench.load(table))
    log = LogBench(lake_bench)
    log.close(*cut(table))
    applied = log.table(table, tmp_path / "scratch")
    return Partitioned(log, table, applied, log.stream())


@pytest.mark.parametrize("most", [5_000, 0])
def test_a_row_that_changes_its_partition_leaves_the_old_one(
    partitioned: Partitioned, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also where two values lie in one folder."""
    monkeypatch.setattr(writer, "MOST_ROWS", most)
    old, later = "2024-01-01 10:00+00", "2024-01-01 11:00+00"
    next_day = "2024-01-02 10:00+00"
    found = partitioned.apply(
        ("delete", 1, old, "a"), ("moved", 1, next_day, "a"),
        ("delete", 2, old, "a"), ("moved", 2, later, "a"),
        ("delete", 3, old, "a"), ("moved", 3, old, "b"),
        ("delete", 4, old, "a"), ("moved", 4, old, None),
        ("delete", 5, old, "a"),
    )  # fmt: skip
    assert found == {
        1: "02 10 a",
        2: "01 11 a",
        3: "01 10 b",
        4: "01 10 ",
        6: "01 10 a",
    }
    found = partitioned.apply(
        ("delete", 4, old, None), ("moved", 4, old, ""),
        ("delete", 1, next_day, "a"), ("moved", 1, old, "a"),
        ("delete", 3, old, "b"), ("moved", 7, old, "b"),
    )  # fmt: skip
    assert found == {
        1: "01 10 a",
        2: "01 11 a",
        4: "01 10 ",
        6: "01 10 a",
        7: "01 10 b",
    }


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"row_hash": True, "key": ()}, "its rows are counted"),
        ({"updates": "partial"}, "a deleted row comes back"),
    ],
)
def test_tables_that_cannot_take_changes_are_refused(
    followed: Followed, other: dict[str, Any], why: str
) -> None:
    table = replace(followed.table, **other)
    with pytest.raises(InvalidRequest, match=why):
        followed.log.table(table, followed.applied.scratch).take()


def test_every_type_is_what_the_load_read(
    lake_bench: LakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows once more, as the log prints them: by a small commit, by Spark's, and
    with values that only the lake has."""
    lake_bench.link.execute(EVERY_TYPE)
    changed_types(lake_bench)
    table = planned(lake_bench, "types", key=("id", "name"))
    assert_done(lake_bench.load(table))
    loaded = whole(lake_bench, table)
    log = LogBench(lake_bench)
    log.close(*cut(table))
    applied, stream = log.table(table, tmp_path / "scratch"), log.stream()
    rows = printed(lake_bench, "types")
    keys = [n for n, c in enumerate(table.columns) if c.source_name in table.key]

    def unsent(row: tuple[Any, ...], turn: int) -> tuple[Any, ...]:
        half = (n in keys or n % 2 == turn for n in range(len(row)))
        return tuple(
            v if is_sent else UNSENT for v, is_sent in zip(row, half, strict=True)
        )

    for most, turn in ((5_000, None), (0, None), (5_000, 0), (0, 1)):
        monkeypatch.setattr(writer, "MOST_ROWS", most)
        sent = rows if turn is None else [unsent(row, turn) for row in rows]
        log.segment(table, *(("update", *row) for row in sent))
        while stream.refresh():
            pass
        assert applied.bring_on(stream, lambda: None).rows == len(rows)
        assert whole(lake_bench, table) == loaded


def printed(bench: LakeBench, table: str) -> list[tuple[str | None, ...]]:
    """Each value as the server's own output of its type, which the log has, too."""
    with bench.link.cursor().copy(f"COPY {table} TO STDOUT") as copy:
        return list(copy.rows())
