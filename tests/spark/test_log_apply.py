"""Segments of a log, applied to lake tables on real parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidRequest
from ingest.contract.table import TableSpec
from ingest.driver.apply.log_apply import LogTable, Step
from ingest.driver.apply.log_read import Stream
from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import LogBench, cut

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
    assert log.close(*cut(table)).number == 101
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
    assert (position.epoch_from, position.epoch_to) == (102, end.number)
    assert (position.end, position.run) == (end.end, "session")
    assert position.epoch_to == last.number + 1
    commits = followed.commits
    assert followed.apply().commit is None, "nothing waits"
    log.close()
    assert followed.apply().commit is None, "nothing of the table came"
    assert followed.commits == commits
    log.segment(table, ("insert", 2, "again", AT), ("update", 7, "x", AT))
    assert followed.apply().commit is not None
    assert followed.rows()[2] == "again"
    assert followed.rows()[7] == "x"
    assert not followed.applied.scratch.exists()
    assert_done(log.bench.compact(table))
    log.segment(table, ("delete", 7, None, None))
    assert followed.apply().commit is not None
    assert sorted(followed.rows()) == [1, 2, 4, 5, 6, 9]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"row_hash": True, "key": ()}, "its rows are counted"),
        ({"partition_by": ("v",)}, "the partition is of other columns"),
        ({"updates": "partial"}, "a deleted row comes back"),
    ],
)
def test_tables_that_cannot_take_changes_are_refused(
    followed: Followed, other: dict[str, Any], why: str
) -> None:
    table = replace(followed.table, **other)
    with pytest.raises(InvalidRequest, match=why):
        followed.log.table(table, followed.applied.scratch).take()
