"""Tables that are altered, rewritten or locked while a job reads them at PostgreSQL.

The oracle is always the same: the lake equals the source, or the job did not succeed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from catalog.schema.limits import SourceLimits
from ingest.contract.job import JobReport, JobSpec
from ingest.driver.capture import reading as patience
from ingest.driver.capture import snapshot, source_tables
from ingest.sources.postgresql import snapshot as postgresql_snapshot
from tests.long_tests import first_then_long
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.waiting import wait_for

CREATE = """
CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now());
INSERT INTO o SELECT g, 'load', now() - interval '1 day' FROM generate_series(1, 500) g;
ANALYZE o
"""
REWRITES = {
    "column with a volatile default": "ALTER TABLE o ADD COLUMN x uuid DEFAULT gen_random_uuid()",
    "truncated and filled": "CREATE TEMP TABLE kept AS SELECT * FROM o; TRUNCATE o;"
    " INSERT INTO o SELECT * FROM kept; UPDATE o SET v = 'again' WHERE id = 3",
    "made again": "CREATE TABLE n (LIKE o INCLUDING ALL); INSERT INTO n SELECT * FROM o;"
    " DROP TABLE o; ALTER TABLE n RENAME TO o",
}
# A session of a job that waits for a lock on a table.
WAITING = """
SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE NOT l.granted AND a.application_name LIKE 'sluice:%'
"""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSES", (0.1,) * 20)


@pytest.fixture
def bench(lake_bench: LakeBench) -> LakeBench:
    lake_bench.link.execute(CREATE)
    return lake_bench


def until(check: Callable[[], Any]) -> None:
    wait_for(check, "what the test waits for")


def run_behind(bench: LakeBench, statements: str, spec: JobSpec) -> JobReport:
    """Starts the job while another session has run `statements` and not committed;
    commits once the job waits for the table."""
    reports: list[JobReport] = []
    with psycopg.connect(bench.dsn) as other:
        other.execute(statements)
        job = threading.Thread(target=lambda: reports.append(bench.run(spec)))
        job.start()
        until(lambda: reports or bench.sql(WAITING)[0][0])
        other.commit()
    job.join()
    return assert_done(reports[0])


def in_source(bench: LakeBench) -> list[tuple[Any, ...]]:
    return sorted(bench.sql("SELECT id, v FROM o"))


# Every way of rewriting is held against the server alone, without Spark, in
# tests/integration/ingest/test_postgresql_ddl.py: here one that has another
# number then.
REWRITTEN = first_then_long(
    "made again", *(one for one in REWRITES if one != "made again")
)


@pytest.mark.parametrize("rewrite", REWRITTEN)
def test_no_job_reads_a_rewritten_table_as_empty(
    bench: LakeBench, rewrite: str
) -> None:
    statements = REWRITES[rewrite]
    table = bench.table("o", cursor="at", estimated_rows=500)
    undo = "ALTER TABLE o DROP COLUMN IF EXISTS x"
    load = bench.spec("snapshot", table, snapshot=snapshot.SnapshotWork(100))
    low = run_behind(bench, statements, load).facts["bound"]
    assert bench.rows(table, "id", "v") == in_source(bench), "first load"

    bench.sql(undo)
    bench.sql("UPDATE o SET v = 'changed', at = now() WHERE id <= 100")
    run_behind(bench, statements, bench.sync_spec(table, low))
    assert bench.rows(table, "id", "v") == in_source(bench), "incremental sync"

    bench.sql(undo)
    again = bench.spec("resync", table, snapshot=snapshot.SnapshotWork(100))
    run_behind(bench, statements, again)
    assert bench.rows(table, "id", "v") == in_source(bench), "re-sync"

    bench.sql(undo)
    report = run_behind(bench, statements, bench.verify_spec(table))
    assert report.facts["verdict"] == "equal"


def test_a_resumed_load_drops_the_chunks_of_the_old_table(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bench.table("o", estimated_rows=500)
    work = snapshot.SnapshotWork(100)
    spec = bench.spec("snapshot", table, snapshot=work)

    def broken(*_: object) -> None:
        raise OSError(5, "the lake is away")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_commit", broken)
        assert bench.run(spec).outcome == "transient"
    bench.sql("BEGIN; TRUNCATE o; INSERT INTO o VALUES (7, 'only'); COMMIT")
    report = assert_done(bench.run(with_attempt(spec, 2)))
    assert bench.rows(table, "id", "v") == [(7, "only")]
    assert any("started again" in w for w in report.warnings), report.warnings


def test_an_alter_between_the_chunks_of_a_load_makes_it_start_again(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = patience.read_statement, []  # type: ignore[var-annotated]

    def between(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            bench.sql(
                "BEGIN; TRUNCATE o; INSERT INTO o SELECT g, 'new', now()"
                " FROM generate_series(1, 200) g; COMMIT"
            )
        return real(*given, **named)

    monkeypatch.setattr(patience, "read_statement", between)
    table = bench.table("o", estimated_rows=500)
    report = assert_done(bench.load(table, chunk_rows=100))
    assert bench.rows(table, "id", "v") == [(i, "new") for i in range(1, 201)]
    assert report.facts["consistency"] == "snapshot"


def test_a_type_that_changes_after_the_check_is_never_committed(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = source_tables.require_columns

    def check(*given: Any) -> Any:
        found = real(*given)
        bench.sql("ALTER TABLE o ALTER v TYPE varchar(90)")
        return found

    table = bench.table("o", estimated_rows=500)
    monkeypatch.setattr(source_tables, "require_columns", check)
    report = bench.load(table)
    assert (report.outcome, report.error and report.error.code) == (
        "invalid_request",
        "source_changed",
    )


@pytest.mark.parametrize("job", first_then_long("sync", "load", "verify"))
def test_a_job_and_an_alter_cannot_jam_each_other(
    bench: LakeBench, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ALTER comes while the job holds its snapshot and has a reader at the start: it
    gets its lock, and the job goes on behind it."""
    from ingest.driver.capture import reading
    from ingest.driver.capture import timestamp as capture_timestamp
    from ingest.driver.table_services import verify

    table = bench.table("o", cursor="at", estimated_rows=500)
    if job != "load":
        low = assert_done(bench.load(table)).facts["bound"]
        bench.sql("UPDATE o SET v = 'changed', at = now() WHERE id <= 100")
    altered: list[str] = []

    def alter() -> None:
        with psycopg.connect(bench.dsn, autocommit=True) as other:
            # longer than any reader of 500 rows takes, shorter than for ever
            other.execute("SET lock_timeout = '30s'")
            other.execute("ALTER TABLE o ALTER v SET NOT NULL")
            altered.append("done")

    def begun(real: Callable[..., Any]) -> Callable[..., Any]:
        def begin(*given: Any, **named: Any) -> Any:
            if not altered:
                alter()
            return real(*given, **named)

        return begin

    for module in (reading, verify):
        monkeypatch.setattr(module, "read_statement", begun(module.read_statement))
    assert capture_timestamp.read_to_parquet is reading.read_to_parquet
    if job == "load":
        assert_done(bench.load(table, chunk_rows=100))
    elif job == "sync":
        assert_done(bench.sync(table, low))
    else:
        facts = assert_done(bench.verify(table)).facts
        assert (facts["missing"], facts["extra"]) == (0, 0)
        assert facts["different"] + facts["pending"] == 100
    assert altered
    if job != "verify":
        assert bench.rows(table, "id", "v") == in_source(bench)


@pytest.mark.long
def test_a_lock_that_is_never_released_ends_the_job_and_names_its_holder(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PAUSES", ())
    table = bench.table("o", estimated_rows=500)
    with psycopg.connect(bench.dsn) as other:
        other.execute("LOCK TABLE o IN ACCESS EXCLUSIVE MODE")
        report = bench.load(table)
        assert report.error is not None
        assert (report.outcome, report.error.code) == ("transient", "source_locked")
        assert f"held by pid {other.info.backend_pid}" in report.error.message
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'sluice:%'"
        until(lambda: not bench.sql(left)[0][0])


def test_a_reader_gives_way_to_who_waits_for_its_lock(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that would take minutes holds its lock as long; ALTER does not wait
    for it."""
    bench.sql("CREATE VIEW w AS SELECT id, pg_sleep(0.5)::text AS v FROM o")
    table = bench.table("w")
    reports: list[JobReport] = []
    monkeypatch.setattr(patience, "PAUSES", ())
    soon = SourceLimits(give_way=1, beat=0.1)
    monkeypatch.setattr(postgresql_snapshot, "LIMITS", soon)
    job = threading.Thread(target=lambda: reports.append(bench.load(table)))
    job.start()
    asleep = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        " AND application_name LIKE 'sluice:%'"
    )
    until(lambda: reports or bench.sql(asleep)[0][0])
    with psycopg.connect(bench.dsn, autocommit=True) as other:
        other.execute("SET lock_timeout = '30s'")
        other.execute("ALTER TABLE o ADD COLUMN y int")
    job.join()
    (report,) = reports
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "source_locked")
    assert "asked for by pid" in report.error.message


def test_rows_that_are_suddenly_gone_do_not_empty_the_lake(bench: LakeBench) -> None:
    bench.sql(
        "INSERT INTO o SELECT g, 'more', now() FROM generate_series(1001, 3000) g"
    )
    # who analyses, and when, is this test's to say
    bench.sql("ALTER TABLE o SET (autovacuum_enabled = false)")
    bench.sql("ANALYZE o")
    table = bench.table("o", estimated_rows=2500)
    assert_done(bench.load(table))
    bench.sql("DELETE FROM o")
    report = bench.load(table, kind="resync")
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", "source_reads_empty")
    bench.sql("ANALYZE o")
    report = bench.load(table, kind="resync")
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", "source_reads_empty")
    assert "lake table has rows (≥ 1000)" in report.error.message
    assert bench.frame(table).count() == 2500
    report = assert_done(bench.load(table, kind="resync", accept_empty=True))
    assert any("was accepted" in w for w in report.warnings)
    assert bench.frame(table).count() == 0
    assert_done(bench.load(table, kind="resync"))
