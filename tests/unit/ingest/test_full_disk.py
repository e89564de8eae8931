"""A full disk is named in the error of the job that met it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ingest.contract.applying import ApplyProblem, ApplyWork
from ingest.contract.job import ErrorFact, JobSpec
from ingest.contract.table import FenceSpec, TableSpec
from ingest.driver.apply import full_disk, log_session

FULL = ErrorFact("storage_full", "the lake's storage is full", "free space there")


def spec(lake: Path, staging: Path) -> JobSpec:
    table = TableSpec(
        1, "public", "o", "shop", "o", f"{lake}/shop/o", f"{staging}/1", (), ("id",)
    )
    return JobSpec("job", 1, "sync", "apply", str(lake), table, FenceSpec("f", 1))


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        # the lake's own disk is full, then that of the staged files
        ({"lake": 0, "staging": 10**9}, "lake"),
        ({"lake": 10**9, "staging": 8_192}, "staging"),
        # what failed was removed since
        ({"lake": 10**9, "staging": 5 * 10**8}, "staging"),
    ],
)
def test_the_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: dict[str, int], expected: str
) -> None:
    def of(found: JobSpec, _: str) -> Any:
        yield found.table.path, free["lake"]
        yield found.table.staging, free["staging"]

    monkeypatch.setattr(full_disk, "_free", of)
    told = full_disk.named(FULL, spec(tmp_path / "lake", tmp_path / "staging"))
    path = str(tmp_path / expected)
    assert told.code == "storage_full"
    assert path in told.message
    assert path in told.hint
    assert f"{free[expected]:,} bytes free" in told.message


@pytest.mark.parametrize(
    ("code", "free", "is_due"),
    [
        (FULL.code, 2**30, True),
        # less than what a write that failed leaves behind
        (FULL.code, 2**20, False),
        ("lease_held", 2**30, False),
    ],
)
def test_a_table_is_tried_again_as_soon_as_there_is_room(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    free: int,
    is_due: bool,
) -> None:
    monkeypatch.setattr(log_session, "room", lambda *_: free)
    spark, around, wanted, table = Mock(), Mock(), Mock(), Mock()
    spark.conf.get.return_value = str(tmp_path)
    work = ApplyWork("run", Mock(), "pg", str(tmp_path), 1)
    session = log_session.ApplySession(spark, work, around, threads=1)
    problem = ApplyProblem(7, "transient", ErrorFact(code, "it failed"))
    wanted.table.table_id, wanted.freshness, wanted.table.columns = 7, 5.0, ()
    task = log_session.Task(wanted, table, Mock(), since=1, problem=problem)
    task.not_before = time.monotonic() + 60
    session._tasks[7], session._is_unread = task, False
    session._report_when_due()
    due, _ = session._due(time.monotonic())
    assert due is (task if is_due else None)


def test_places_that_are_not_there_yet_are_asked(tmp_path: Path) -> None:
    other = ErrorFact("fenced", "another driver took the table over")
    found = spec(tmp_path / "lake", tmp_path / "staging")
    assert full_disk.named(other, found) is other
    assert "bytes free" in full_disk.named(FULL, found).message
