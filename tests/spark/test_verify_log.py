"""Source against lake while both go on, of a table that follows a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.contract.table import TableSpec
from ingest.driver.table_services import verify_log
from ingest.sources.port import Moment
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import NAME, LogBench, cut, place

COUNTS = ("missing", "extra", "different", "pending")


def counts(facts: Any) -> dict[str, int]:
    return {name: facts[name] for name in COUNTS if facts[name]}


@pytest.fixture
def followed(lake_bench: LakeBench) -> tuple[LogBench, TableSpec]:
    lake_bench.sql("CREATE TABLE o (id int PRIMARY KEY, v text)")
    lake_bench.sql("INSERT INTO o SELECT g, 'load' FROM generate_series(1, 500) g")
    table = lake_bench.table("o")
    assert_done(lake_bench.load(table))
    log = LogBench(lake_bench)
    log.close(*cut(table))
    return log, table


def verify_with(
    followed: tuple[LogBench, TableSpec],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *changes: tuple[Any, ...],
) -> Any:
    """Facts of a verification. changes: of the log, committed behind its moment; the
    lake has them when it is compared."""
    log, table = followed

    def take_moment(run: Any, source: Any) -> Moment:
        found, at = source.moment(), place(log.lsn)
        if changes:
            log.segment(table, *changes)
            log.table(table, tmp_path / "apply").bring_on(log.stream(), lambda: None)
        return Moment(at, found.snapshot)

    monkeypatch.setattr(verify_log, "take_moment", take_moment)
    report = log.bench.verify(table, stream=NAME)
    return assert_done(report).facts


CHANGES = (
    ("update", 1, "new"),
    ("delete", 2, None),
    ("insert", 900, "new"),
    ("delete", 3, None),
    ("moved", 903, "load"),
)


def test_what_changes_meanwhile_is_no_difference(
    followed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = verify_with(followed, monkeypatch, tmp_path, *CHANGES)
    assert (facts["verdict"], counts(facts)) == ("equal", {"pending": 5})
    assert "5 keys that changed while they were compared" in facts["summary"]


def test_every_other_difference_is_found(
    followed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, _ = followed
    log.bench.sql("UPDATE o SET v = 'another' WHERE id = 7")
    log.bench.sql("INSERT INTO o VALUES (800, 'not in the log')")
    log.bench.sql("DELETE FROM o WHERE id = 8")
    facts = verify_with(followed, monkeypatch, tmp_path, *CHANGES)
    wanted = {"missing": 1, "extra": 1, "different": 1, "pending": 5}
    assert (facts["verdict"], counts(facts)) == ("different", wanted)
    assert facts["keys"] == {"missing": ["800"], "extra": ["8"], "different": ["7"]}


def test_a_quiet_table_is_equal(
    followed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = verify_with(followed, monkeypatch, tmp_path)
    assert (facts["verdict"], counts(facts)) == ("equal", {})


def test_a_lake_that_does_not_follow_is_not_compared(
    followed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session is away, so a change of before the moment is not in the lake."""
    log, table = followed

    def take_moment(run: Any, source: Any) -> Moment:
        log.segment(table, ("update", 1, "new"))
        return Moment(place(log.lsn), "")

    monkeypatch.setattr(verify_log, "take_moment", take_moment)
    monkeypatch.setattr(verify_log, "APPLIED_SECONDS", 0.0)
    report = log.bench.verify(table, stream=NAME)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "not_applied")
