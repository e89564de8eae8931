"""What tests took is kept per folder, and who takes longer than agreed is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.toolchain import durations

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("test", "folder"),
    [
        ("tests/spark/test_load.py::test_it[a/b]", "spark"),
        ("tests/unit/ingest/lake/test_places.py::test_it", "unit-ingest"),
        ("tests/integration/ingest/test_way.py::test_it", "integration-ingest"),
        ("tests/integration/test_exchange.py::test_it", "integration"),
    ],
)
def test_a_test_counts_for_its_folder(test: str, folder: str) -> None:
    assert durations.folder_of(test) == folder


def test_two_runs_add_to_one_file_and_the_newer_counts(tmp_path: Path) -> None:
    one, two = "tests/spark/test_a.py::test_one", "tests/spark/test_a.py::test_two"
    durations.save({one: 9.0, two: 2.0}, place=tmp_path)
    durations.save({one: 1.0}, place=tmp_path)
    (tmp_path / "browser.json").write_text("cut off {")
    durations.save({"tests/browser/test_b.py::test_it": 3.0}, place=tmp_path)
    spark = json.loads((tmp_path / "spark.json").read_text())
    assert spark == {"folder": "spark", "seconds": 3.0, "tests": {two: 2.0, one: 1.0}}
    found = {each.folder: each for each in durations.read(tmp_path)}
    assert found["spark"].slowest == ((two, 2.0), (one, 1.0))
    assert found["browser"].seconds == 3.0
    durations.forget(tmp_path)
    assert durations.read(tmp_path) == []


def test_a_folder_over_its_budget_or_without_one_is_named() -> None:
    slow = durations.Duration("spark", 61.0, (("tests/spark/test_a.py::test_x", 50.0),))
    found = [slow, durations.Duration("fault", 60.0), durations.Duration("new", 1.0)]
    assert durations.over_budget(found, {"spark": 60, "fault": 60}) == [
        "OVER BUDGET: tests of spark took 61 s, it has 60 s (tests/budgets.json);"
        " slowest: tests/spark/test_a.py::test_x 50 s",
        "OVER BUDGET: tests of new took 1 s, it has no budget (tests/budgets.json);"
        " slowest: ",
    ]


def test_every_folder_of_tests_has_a_budget() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    folders = {
        durations.folder_of(path.relative_to(ROOT).as_posix() + "::") for path in files
    }
    assert folders == set(durations.read_budgets())
    # four processes that test at once, for 15 minutes
    assert sum(durations.read_budgets().values()) <= 4 * 900


def test_a_run_that_takes_longer_than_agreed_says_so() -> None:
    assert durations.of_the_whole(899.6) == "-- all of it: 900 s"
    assert "OVER its BUDGET of 900 s" in durations.of_the_whole(901)
