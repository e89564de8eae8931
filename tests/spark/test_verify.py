"""Source against lake: what is equal, what is not, and that nothing is left behind."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from ingest.contract.job import JobReport
from ingest.contract.table import TableSpec
from ingest.driver.capture.parallel import enter_lane
from ingest.driver.run import run_job
from ingest.driver.table_services import verify
from ingest.lake.hudi.identity import DELETED
from ingest.sources.dialects import dialect_of
from ingest.sources.select import select_columns
from tests.spark.beginnings import fixture_of
from tests.spark.lake_bench import LakeBench, assert_done
from tests.waiting import LIMIT_SECONDS, wait_for

CREATE = """CREATE TABLE o (id int PRIMARY KEY, t text, n numeric(12,2), ts timestamp,
  b bytea, tags text[], at timestamptz NOT NULL DEFAULT now() - interval '1 hour')"""
ROWS = """INSERT INTO o (id, t, n, ts, b, tags) SELECT g, 'text ' || g, g * 1.01,
  '2024-01-02 03:04:05.000006'::timestamp + g * interval '1 s', '\\x00ff'::bytea,
  ARRAY['a', NULL, g::text] FROM generate_series(1, 500) g"""
COUNTS = ("missing", "extra", "different", "pending")


loaded = fixture_of(CREATE, ROWS)


def checked(bench: LakeBench, table: TableSpec, **k: Any) -> dict[str, Any]:
    """The facts of a verification that ended and left nothing behind."""
    facts = dict(assert_done(bench.verify(table, **k)).facts)
    assert not staged(table)
    return facts


def staged(table: TableSpec) -> list[Path]:
    return list(Path(table.staging).glob("verify*"))


def counts(facts: dict[str, Any]) -> dict[str, int]:
    return {name: facts[name] for name in COUNTS if facts[name]}


def test_equal_in_one_chunk_and_in_many(loaded: Any) -> None:
    bench, table, _ = loaded
    for chunk_rows in (200_000, 70):
        facts = checked(bench, table, chunk_rows=chunk_rows)
        assert (facts["verdict"], counts(facts)) == ("equal", {})
        assert facts["source_rows"] == facts["lake_rows"] == 500
        assert facts["instant"] == bench.state(table).commits[0].instant.asked


PLANTED = {
    "text": ("t = 'text 77 '", 7),
    "numeric": ("n = n + 0.01", 8),
    "timestamp": ("ts = ts + interval '1 microsecond'", 9),
    "bytea": ("b = '\\x00fe'", 10),
    "array": ("tags = ARRAY[NULL, 'a', id::text]", 11),
    "null": ("t = NULL", 12),
    "empty": ("t = ''", 13),
    "bytes none": ("b = ''", 14),
}


def test_a_single_planted_difference_of_each_type_is_found(loaded: Any) -> None:
    bench, table, _ = loaded
    for change, number in PLANTED.values():
        bench.sql(f"UPDATE o SET {change} WHERE id = {number}")
    facts = checked(bench, table, chunk_rows=100)
    assert (facts["verdict"], counts(facts)) == ("different", {"different": 8})
    assert facts["keys"]["different"] == [str(n) for _, n in PLANTED.values()]


@pytest.mark.long
def test_null_is_not_empty_and_columns_do_not_change_places(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql("CREATE TABLE o (id int PRIMARY KEY, a text, b text, c text)")
    lake_bench.sql("INSERT INTO o VALUES (1, NULL, 'x', ''), (2, '', NULL, 'x')")
    table = lake_bench.table("o")
    assert_done(lake_bench.load(table))
    assert checked(lake_bench, table)["verdict"] == "equal"
    lake_bench.sql("UPDATE o SET a = 'x', b = NULL WHERE id = 1")
    lake_bench.sql("UPDATE o SET a = NULL, b = '' WHERE id = 2")
    facts = checked(lake_bench, table)
    assert counts(facts) == {"different": 2}
    assert "follows no cursor" in facts["summary"]


def test_missing_and_extra_rows_and_deleted_ones(loaded: Any) -> None:
    bench, table, _ = loaded
    bench.sql("INSERT INTO o (id, t) VALUES (901, 'late'), (902, 'late')")
    bench.sql("DELETE FROM o WHERE id = 3")
    facts = checked(bench, table)
    assert counts(facts) == {"missing": 2, "extra": 1}
    assert facts["keys"] == {"missing": ["901", "902"], "extra": ["3"], "different": []}
    assert (facts["source_rows"], facts["lake_rows"]) == (501, 500)
    assert "does not see deletes" in facts["summary"]


@pytest.mark.long
def test_newer_changes_are_pending_until_their_round(loaded: Any) -> None:
    bench, table, low = loaded
    bench.sql("UPDATE o SET t = 'new', at = now() WHERE id <= 5")
    bench.sql("INSERT INTO o (id, t, at) VALUES (901, 'new', now())")
    bench.sql("UPDATE o SET t = 'unseen' WHERE id = 6")
    facts = checked(bench, table)
    assert counts(facts) == {"different": 1, "pending": 6}
    assert facts["keys"]["different"] == ["6"]
    bench.sql("UPDATE o SET t = 'text 6' WHERE id = 6")
    facts = checked(bench, table)
    assert (facts["verdict"], counts(facts)) == ("equal", {"pending": 6})
    assert facts["position"] == low
    done = assert_done(bench.sync(table, low))
    facts = checked(bench, table)
    assert (facts["verdict"], counts(facts)) == ("equal", {})
    # a position that the table has passed without a commit counts as well
    bench.sql("UPDATE o SET t = 'lost', at = now() WHERE id = 7")
    end = done.facts["position"]["to"]
    assert counts(checked(bench, table)) == {"pending": 1}
    later = f"{int(end[:4]) + 1}{end[4:]}"
    assert counts(checked(bench, table, position=later)) == {"different": 1}


@pytest.mark.long
def test_a_sync_beside_it_makes_no_difference(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits after the lake's snapshot was taken and before the source's."""
    bench, table, low = loaded
    real = verify._stage_source

    def later(check: Any, lake: Any) -> Any:
        bench.sql("UPDATE o SET t = 'new', at = now() WHERE id <= 5")
        assert assert_done(bench.sync(table, low)).facts["rows"] == 5
        return real(check, lake)

    monkeypatch.setattr(verify, "_stage_source", later)
    facts = checked(bench, table)
    assert (facts["verdict"], counts(facts)) == ("equal", {"pending": 5})
    assert facts["position"] == low


@pytest.mark.long
def test_rows_without_a_key_are_counted(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE o (a text, b int)")
    lake_bench.sql("INSERT INTO o SELECT 'x', g % 3 FROM generate_series(1, 30) g")
    table = lake_bench.table("o", (), row_hash=True)
    assert_done(lake_bench.load(table))
    facts = checked(lake_bench, table)
    assert (facts["verdict"], facts["source_rows"], facts["lake_rows"]) == (
        "equal",
        30,
        30,
    )
    lake_bench.sql("INSERT INTO o VALUES ('x', 1), (NULL, 1), (NULL, 1)")
    facts = checked(lake_bench, table)
    assert counts(facts) == {"missing": 2, "different": 1}
    assert (facts["source_rows"], facts["lake_rows"]) == (33, 30)


@pytest.mark.long
def test_composite_keys_are_shown_as_their_values(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE o (a text, b int, v text, PRIMARY KEY (a, b))")
    lake_bench.sql(
        "INSERT INTO o VALUES ('x,y', 1, 'v'), ('', 2, 'v'), ('50%', 3, 'v')"
    )
    table = lake_bench.table("o", ("a", "b"))
    assert_done(lake_bench.load(table))
    assert checked(lake_bench, table)["verdict"] == "equal"
    lake_bench.sql("UPDATE o SET v = 'w'")
    facts = checked(lake_bench, table)
    assert sorted(facts["keys"]["different"]) == [", 2", "50%, 3", "x,y, 1"]


def test_marked_rows_are_no_rows(loaded: Any) -> None:
    """A bulk_insert leaves marked rows visible to a plain read."""
    bench, table, _ = loaded
    selection = select_columns(dialect_of("postgresql"), table.columns)
    run: Any = bench.start(bench.verify_spec(table))
    nothing: Any = None
    check = verify._Check(
        run, bench.spark, nothing, nothing, nothing, selection, Path(), position=""
    )
    rows = bench.frame(table).withColumn(DELETED, F.col("id") <= 100)
    assert verify._lake_side(check, rows).count() == 400


def test_a_cancel_stops_it_and_leaves_nothing(loaded: Any) -> None:
    bench, table, _ = loaded
    # a slow source: the statement would take hours
    bench.sql("ALTER TABLE o RENAME TO kept")
    bench.sql("CREATE VIEW o AS SELECT kept.* FROM kept, pg_sleep(9999)")
    run = bench.start(bench.verify_spec(table))
    reports: list[JobReport] = []
    thread = threading.Thread(target=lambda: reports.append(in_lane(bench, run)))
    thread.start()
    until(lambda: is_reading(bench))
    assert staged(table)
    run.request_stop("cancel")
    thread.join(LIMIT_SECONDS)
    assert [r.outcome for r in reports] == ["cancelled"]
    assert not staged(table)
    until(lambda: not is_reading(bench))


def in_lane(bench: LakeBench, run: Any) -> JobReport:
    enter_lane(run)
    context = bench.spark.sparkContext
    with run.stopped_by(lambda: context.cancelJobsWithTag(run.tag)):
        return run_job(run, bench.spark, bench.gates)


def is_reading(bench: LakeBench) -> bool:
    found = bench.sql(
        "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sluice:%'"
        " AND state = 'active' AND wait_event = 'PgSleep'"
    )
    return bool(found)


def until(check: Any) -> None:
    wait_for(check, "the source's statement")


def test_what_a_dead_attempt_left_goes_with_the_next(loaded: Any) -> None:
    bench, table, _ = loaded
    left = Path(table.staging) / "verify" / "dead-1" / "source"
    left.mkdir(parents=True)
    (left / "part.parquet").write_bytes(b"rubble")
    load = Path(table.staging) / "load" / "plan.json"
    load.parent.mkdir(parents=True, exist_ok=True)
    load.write_text("{}")
    assert checked(bench, table)["verdict"] == "equal"
    assert load.exists()


def test_a_failed_one_leaves_the_writer_beside_it_alone(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, table, _ = loaded
    timeline = Path(table.path) / ".hoodie" / "timeline"
    inflight = timeline / "29990101000000000.deltacommit.requested"
    inflight.write_bytes(b"")
    monkeypatch.setattr(verify, "_compare", None)
    report = bench.verify(table)
    assert report.outcome == "terminal"
    assert inflight.exists()
    assert not staged(table)


def test_what_cannot_be_decided_says_why(loaded: Any) -> None:
    bench, table, _ = loaded
    bench.sql("ALTER TABLE o DROP COLUMN n")
    report = bench.verify(table)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("invalid_request", "source_changed")
    report = bench.verify(replace(table, path=f"{table.path}_none"))
    assert report.error is not None
    assert report.error.code == "not_loaded"


def test_a_budget_is_kept_over_its_chunks(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cuts smaller chunks than without one, about what five seconds may read."""
    bench, table, _ = loaded
    waited: list[int] = []

    def account(pace: verify.Pace, rows: int) -> None:
        if pace.rate:
            waited.append(rows)

    monkeypatch.setattr(verify.Pace, "account", account)
    facts = checked(bench, table, rows_per_second=20)
    assert facts["verdict"] == "equal"
    assert sum(waited) == 500
    assert len(waited) >= 4
