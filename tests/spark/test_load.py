"""Loads: what the lake holds equals the source, in one commit, whatever the names."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from catalog.schema.limits import LIMITS
from ingest.contract.job import SnapshotWork
from ingest.contract.positions import from_text
from ingest.contract.table import TableSpec
from ingest.driver.capture import reading as patience
from ingest.lake.staging import StagingArea
from ingest.sources.dialects import dialect_of
from ingest.sources.statements import KeyStatements
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.waiting import LIMIT_SECONDS

EDGES = """
CREATE TABLE edges (
  id bigint PRIMARY KEY, flag boolean, small smallint, whole integer, r real,
  d double precision, n numeric(38,10), wide numeric(60,20), free numeric, t text,
  v varchar(9), c char(5), bin bytea, day date, moment time, plain timestamp,
  zoned timestamptz, u uuid, j json, jb jsonb, tags text[]);
INSERT INTO edges (id) VALUES (-9223372036854775808);
INSERT INTO edges VALUES (9223372036854775807, true, -32768, 2147483647, 0.1, 1e308,
  '9999999999999999999999999999.9999999999', '1.00000000000000000001',
  '123456789012345678901234567890123456789012345.5', E'tab\\tline\\n''"\\\\ 中文', 'v', 'ab',
  '\\x00ff5c', '0001-01-01', '23:59:59.999999', '1582-10-10 00:00:00.000001',
  '9999-12-31 23:59:59.999999+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  '{"b": 1,  "a": 2}', '{"b": 1, "a": 2}', ARRAY['x', NULL, '', 'a,b']);
INSERT INTO edges VALUES (0, false, 0, 0, 'NaN', '-Infinity', 'NaN', 'NaN', 'Infinity', '',
  '', '', '', 'infinity', '24:00', '-infinity', 'infinity', NULL, '1', '1',
  ARRAY[['a','b'],['c','d']]);
INSERT INTO edges VALUES (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, '0044-03-15 BC', NULL, '0001-01-01', '0001-01-01 00:00+00',
  NULL, NULL, NULL, '{}');
"""
TEXTS = {
    "id": "id::text",
    "flag": "flag::text",
    "small": "small::text",
    "whole": "whole::text",
    "n": "CASE WHEN n <> 'NaN' THEN n::text END",
    "wide": "wide::text",
    "free": "free::text",
    "t": "t",
    "v": "v",
    "c": "c::text",
    "bin": "upper(encode(bin, 'hex'))",
    "day": "CASE WHEN isfinite(day) AND day >= '0001-01-01' THEN day::text END",
    "moment": "moment::text",
    "plain": "CASE WHEN isfinite(plain) THEN plain::text END",
    "zoned": "CASE WHEN isfinite(zoned) THEN (zoned AT TIME ZONE 'UTC')::text END",
    "u": "u::text",
    "j": "j::text",
    "jb": "jb::text",
}


def as_text(
    bench: LakeBench, table: object, columns: dict[str, str]
) -> list[tuple[object, ...]]:
    frame = bench.frame(table)  # type: ignore[arg-type]
    shown = [f"hex({c})" if c == "bin" else f"cast(`{c}` as string)" for c in columns]
    return sorted(tuple(r) for r in frame.selectExpr(*shown).collect())


def test_every_type_at_its_edges_equals_the_source(lake_bench: LakeBench) -> None:
    lake_bench.link.execute(EDGES)
    table = lake_bench.table("edges")
    report = assert_done(lake_bench.load(table))
    wanted = sorted(lake_bench.sql(f"SELECT {', '.join(TEXTS.values())} FROM edges"))
    assert as_text(lake_bench, table, TEXTS) == wanted
    assert report.facts["lossy"] == {
        "n": 1,
        "day": 2,
        "plain": 1,
        "zoned": 1,
        "tags": 1,
    }
    assert report.facts["rows"] == 4
    floats = {r[0]: r[1:] for r in lake_bench.rows(table, "id", "r", "d") if r[0]}
    assert floats[2**63 - 1] == (pytest.approx(0.1, rel=1e-7), 1e308)
    tags = dict(
        tuple(r) for r in lake_bench.frame(table).select("id", "tags").collect()
    )
    assert tags[2**63 - 1] == ["x", None, "", "a,b"]
    assert tags[0] is None
    assert tags[1] == []


def test_a_load_is_one_commit_with_position_and_ledger(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE t (id int PRIMARY KEY, at timestamptz DEFAULT now())")
    lake_bench.sql("INSERT INTO t SELECT g FROM generate_series(1, 1000) g; ANALYZE t")
    table = lake_bench.table("t", cursor="at", estimated_rows=1000)
    report = assert_done(lake_bench.load(table, chunk_rows=100, lag=900))
    # what comes late, to a replica perhaps, is read by the first sync
    now = lake_bench.sql("SELECT clock_timestamp()")[0][0]
    assert now - from_text(report.facts["bound"]) > timedelta(seconds=900)
    state = lake_bench.state(table)
    assert [c.operation for c in state.commits] == ["BULK_INSERT"]
    assert report.facts["chunks"] == 10
    assert report.facts["consistency"] == "snapshot"
    assert state.position is not None
    assert state.position.end == report.facts["bound"] != ""
    assert state.position.epoch_to == report.facts["epoch"]
    assert not state.columns["id"]
    assert not state.columns["_sluice_seq"]
    assert state.columns["at"]
    assert not StagingArea(table.staging).folder.exists()
    seqs = {r[0] for r in lake_bench.rows(table, "_sluice_seq")}
    assert seqs == {report.facts["epoch"] << 24}


POSTGRESQL = dialect_of("postgresql")
HOSTILE = ['a"b', "select", "a.b", "Mixed Case", "it's", "back\\slash", "名字", "a;--"]


def test_names_that_break_sql_load_and_compare_equal(lake_bench: LakeBench) -> None:
    key = 'k"; DROP'
    name, qualified = POSTGRESQL.name, POSTGRESQL.qualified
    schema, source = 'Sch"ema.x', "ta'ble \\ 表"
    columns = ", ".join(f"{name(c)} text" for c in HOSTILE)
    lake_bench.sql(f"CREATE SCHEMA {name(schema)}")
    relation = qualified(schema, source)
    lake_bench.sql(f"CREATE TABLE {relation} ({name(key)} int PRIMARY KEY, {columns})")
    values = ", ".join(f"'v{i}'" for i, _ in enumerate(HOSTILE))
    lake_bench.sql(
        f"INSERT INTO {relation} SELECT g, {values} FROM generate_series(1,9) g"
    )
    rename = {c: f"c{i}" for i, c in enumerate([key, *HOSTILE])}
    table = lake_bench.table(source, (key,), schema=schema, rename=rename)
    assert_done(lake_bench.load(table, chunk_rows=3))
    rows = lake_bench.rows(table, *rename.values())
    assert rows == [
        (i, *(f"v{n}" for n, _ in enumerate(HOSTILE))) for i in range(1, 10)
    ]


def test_a_key_and_a_partition_that_are_no_ascii_are_written_to_again(
    lake_bench: LakeBench,
) -> None:
    """What Hudi keeps of a table, escaped as Java does, is compared at each write."""
    lake_bench.sql('CREATE TABLE k ("编号" bigint PRIMARY KEY, "区域" text)')
    lake_bench.sql("INSERT INTO k SELECT g, 'a' FROM generate_series(1, 9) g")
    table = lake_bench.table("k", ("编号",), partition_by=("区域",))
    assert_done(lake_bench.load(table))
    lake_bench.sql('DELETE FROM k WHERE "编号" > 5')
    assert_done(lake_bench.load(table, kind="resync"))
    assert lake_bench.rows(table, "编号") == [(i,) for i in range(1, 6)]


KEYS = [
    # lossless and distinct although naive joins of the parts collide
    (
        "a text, b text, PRIMARY KEY (a, b)",
        ("a", "b"),
        "('x', 'y,b:z'), ('x,b:y', 'z'), ('', 'q'), ('q', ''), ('A','a'), ('a','A')",
    ),
    (
        "k text PRIMARY KEY",
        ("k",),
        "(''), ('null'), ('__null__'), (' '), ('é'), ('zz')",
    ),
    (
        "k timestamptz PRIMARY KEY",
        ("k",),
        "('1500-01-01'), ('2024-01-01 00:00:00.000001+00'), ('2024-01-01')",
    ),
]
LONG_KEYS = [
    (
        "k numeric(20,4) PRIMARY KEY",
        ("k",),
        "(1.1), (-1.1), (0), (9999999999999999.9999)",
    ),
    (
        "k uuid PRIMARY KEY",
        ("k",),
        "('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), ('00000000-0000-0000-0000-000000000000')",
    ),
    ("k bytea PRIMARY KEY", ("k",), "('\\x'), ('\\x00'), ('\\xff')"),
    (
        "k date, n smallint, PRIMARY KEY (n, k)",
        ("n", "k"),
        "('2024-01-01', -32768), ('2024-01-01', 0), ('1500-01-01', 32767)",
    ),
]
LONG = [pytest.param(*one, marks=pytest.mark.long) for one in LONG_KEYS]


@pytest.mark.parametrize(("columns", "key", "values"), [*KEYS, *LONG])
def test_keys_of_any_type_stay_distinct_through_upserts(
    lake_bench: LakeBench, columns: str, key: tuple[str, ...], values: str
) -> None:
    lake_bench.sql(f"CREATE TABLE k ({columns})")
    lake_bench.sql(f"INSERT INTO k VALUES {values}")
    lake_bench.sql("ALTER TABLE k ADD at timestamptz NOT NULL DEFAULT now(), ADD v int")
    table = lake_bench.table("k", key, cursor="at")
    low = assert_done(lake_bench.load(table, chunk_rows=2)).facts["bound"]
    count = lake_bench.sql("SELECT count(*) FROM k")[0][0]
    assert lake_bench.frame(table).count() == count
    lake_bench.sql("UPDATE k SET v = 7, at = now()")
    assert assert_done(lake_bench.sync(table, low)).facts["rows"] == count
    assert [r[0] for r in lake_bench.rows(table, "v")] == [7] * count


def test_an_empty_table_becomes_an_empty_lake_table(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE e (id int PRIMARY KEY, v text)")
    table = lake_bench.table("e")
    report = assert_done(lake_bench.load(table))
    assert report.facts["rows"] == 0
    assert lake_bench.frame(table).count() == 0
    assert "v" in lake_bench.frame(table).columns


@pytest.mark.long
def test_three_hundred_columns(lake_bench: LakeBench) -> None:
    columns = ", ".join(f"c{i} {'date' if i % 2 else 'text'}" for i in range(300))
    lake_bench.sql(f"CREATE TABLE w (id int PRIMARY KEY, {columns})")
    lake_bench.sql("INSERT INTO w (id, c0, c299) VALUES (1, 'x', 'infinity')")
    table = lake_bench.table("w")
    report = assert_done(lake_bench.load(table))
    assert report.facts["lossy"] == {"c299": 1}
    assert lake_bench.rows(table, "c0", "c299") == [("x", None)]


def test_a_table_without_key_keeps_how_often_a_row_occurs(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql("CREATE TABLE h (a text, b int)")
    lake_bench.sql(
        "INSERT INTO h VALUES ('x', 1), ('x', 1), ('x', NULL), (NULL, 1), ('', 1)"
    )
    table = lake_bench.table("h", (), row_hash=True)
    assert_done(lake_bench.load(table))
    found = {
        (r[0], r[1]): r[2]
        for r in lake_bench.frame(table).select("a", "b", "_sluice_count").collect()
    }
    assert found == {("x", 1): 2, ("x", None): 1, (None, 1): 1, ("", 1): 1}


def test_rows_that_no_heap_holds_are_named_as_the_reason(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on what a reader buffers ends the read before the heap is full."""
    monkeypatch.setattr(patience, "PAUSES", (0.0,))
    vast = LIMITS.result_bytes + 1
    lake_bench.sql(f"CREATE VIEW vast AS SELECT 1 AS id, repeat('x', {vast}) AS v")
    report = lake_bench.load(lake_bench.table("vast"))
    assert report.error is not None, report
    assert report.error.code == "source_rows_wide", report
    assert "rows are too wide" in report.error.message


@pytest.mark.parametrize(
    ("values", "code"),
    [("(1), (1)", "repeated_keys"), ("(1), (NULL)", "null_keys")],
)
def test_a_chosen_key_that_is_none_is_refused(
    lake_bench: LakeBench, values: str, code: str
) -> None:
    lake_bench.sql("CREATE TABLE b (k int)")
    lake_bench.sql(f"INSERT INTO b VALUES {values}")
    table = lake_bench.table("b", ("k",))
    report = lake_bench.load(table)
    assert report.outcome == "invalid_request"
    assert report.error is not None
    assert report.error.code == code
    assert not Path(table.path).exists()


def test_resync_shows_old_rows_until_the_one_commit(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE r (id int PRIMARY KEY, v text)")
    lake_bench.sql("INSERT INTO r SELECT g, 'old' FROM generate_series(1, 50) g")
    table = lake_bench.table("r")
    assert_done(lake_bench.load(table))
    lake_bench.sql("DELETE FROM r WHERE id > 20; UPDATE r SET v = 'new'")
    second = lake_bench.load(table)
    assert second.error is not None
    assert second.error.code == "lake_table_exists"
    assert_done(lake_bench.load(table, kind="resync"))
    assert lake_bench.rows(table, "id", "v") == [(i, "new") for i in range(1, 21)]
    operations = [c.operation for c in lake_bench.state(table).commits]
    assert operations == ["INSERT_OVERWRITE_TABLE", "BULK_INSERT"]


def test_finished_chunks_are_not_read_again(lake_bench: LakeBench) -> None:
    """Counted at the source: rows fetched from the table by all statements."""
    lake_bench.sql("CREATE TABLE big (id int PRIMARY KEY, v text)")
    lake_bench.sql(
        "INSERT INTO big SELECT g, repeat('x', 200) FROM generate_series(1, 4000) g"
    )
    _make_all_visible(lake_bench, "big")
    table = lake_bench.table("big", estimated_rows=4000)
    slow = replace(lake_bench.source, max_parallel_reads=1, max_rows_per_second=400)
    work = SnapshotWork(chunk_rows=400)
    run = lake_bench.start(
        lake_bench.spec("snapshot", table, source=slow, snapshot=work)
    )
    spec = run.spec
    reports = []
    from ingest.driver.capture.parallel import enter_lane
    from ingest.driver.run import run_job

    def work() -> None:
        enter_lane(run)
        reports.append(run_job(run, lake_bench.spark, lake_bench.gates))

    worker = threading.Thread(target=work)
    worker.start()
    staging = StagingArea(table.staging)
    while len(staging.finished()) < 3:
        assert worker.is_alive(), reports
        time.sleep(0.05)
    run.request_stop("pause")
    worker.join(LIMIT_SECONDS)
    assert [r.outcome for r in reports] == ["paused"]
    done = staging.finished()
    assert 3 <= len(done) < 10
    assert not Path(table.path).exists()

    before = _fetched(lake_bench, "big")
    fast = replace(spec, source=lake_bench.source)
    report = assert_done(lake_bench.run(with_attempt(fast, 2)))
    left = 4000 - sum(m.rows for m in done.values())
    read = _fetched(lake_bench, "big") - before
    assert read == left
    assert report.facts["consistency"] == "per_chunk"
    assert report.facts["chunks"] == 10
    assert len(lake_bench.rows(table, "id")) == 4000


def test_what_is_taken_for_the_highest_key_hides_no_row(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source may order keys other than it compares them."""
    lake_bench.sql("CREATE TABLE t (id text PRIMARY KEY)")
    lake_bench.sql("INSERT INTO t SELECT g FROM generate_series(1, 250) g")
    monkeypatch.setattr(KeyStatements, "highest", lambda self: self.beyond((), rows=1))
    table = lake_bench.table("t", estimated_rows=250)
    work = SnapshotWork(chunk_rows=100)
    assert_done(lake_bench.run(lake_bench.spec("snapshot", table, snapshot=work)))
    assert len(lake_bench.rows(table, "id")) == 250


def _make_all_visible(bench: LakeBench, table: str) -> None:
    """Planning a chunk that ends at the highest key, PostgreSQL looks that key up, and
    fetches its row, one more than the chunk has, unless its page is all-visible."""
    bench.sql("CHECKPOINT")  # a commit that is not flushed keeps pages from being it
    bench.sql(f"VACUUM ANALYZE {table}")
    [(pages, visible)] = bench.sql(
        f"SELECT relpages, relallvisible FROM pg_class WHERE relname = '{table}'"
    )
    assert pages == visible > 0


def _fetched(bench: LakeBench, table: str) -> int:
    """Heap rows fetched so far, by backends that have ended: these have told all."""
    ours = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sluice:%'"
    while bench.sql(ours):
        time.sleep(0.05)
    bench.sql("SELECT pg_stat_clear_snapshot()")
    return int(
        bench.sql(
            "SELECT coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0)"
            f" FROM pg_stat_user_tables WHERE relname = '{table}'"
        )[0][0]
    )


def test_a_table_altered_or_dropped_since_the_plan_is_named(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql("CREATE TABLE a (id int PRIMARY KEY, gone text, grew int)")
    table = lake_bench.table("a")
    lake_bench.sql("ALTER TABLE a DROP gone, ALTER grew TYPE bigint")
    report = lake_bench.load(table)
    assert report.outcome == "invalid_request"
    assert report.error is not None
    assert report.error.code == "source_changed"
    assert "gone" in report.error.message
    assert "grew" in report.error.message
    lake_bench.sql("DROP TABLE a")
    report = lake_bench.load(table)
    assert report.error is not None
    assert report.error.code == "source_table_missing"


def test_wrong_password_and_missing_privilege_are_the_callers(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY)")
    table = lake_bench.table("p")
    lake_bench.sql("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN PASSWORD 'w'")
    good, lake_bench.password = lake_bench.password, "wrong"
    report = lake_bench.load(table)
    assert report.error is not None
    assert (report.outcome, report.error.code) == (
        "invalid_request",
        "wrong_password",
    )
    lake_bench.password = "w"
    lake_bench.source = replace(lake_bench.source, username="weak")
    report = lake_bench.load(table)
    assert report.error is not None
    assert (report.outcome, report.error.code) == (
        "invalid_request",
        "source_privilege_missing",
    )
    lake_bench.password = good


@pytest.mark.long
def test_a_login_with_grants_on_columns_reads_those(lake_bench: LakeBench) -> None:
    bench = lake_bench
    bench.sql(
        "CREATE TABLE g (id int PRIMARY KEY, v text, at timestamptz, secret text);"
        "INSERT INTO g SELECT i, 'v', now(), 's' FROM generate_series(1, 3000) i;"
        "CREATE TABLE parted (id int PRIMARY KEY, v text, secret text)"
        " PARTITION BY RANGE (id);"
        "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10000);"
        "INSERT INTO parted SELECT id, v, secret FROM g; ANALYZE;"
        "DROP ROLE IF EXISTS partly; CREATE ROLE partly LOGIN PASSWORD 's';"
        "GRANT SELECT (id, v, at) ON g TO partly;"
        "GRANT SELECT (id, v) ON parted TO partly"
    )
    seen, unindexed, parted = (
        without(bench.table(name, key, **more), "secret")
        for name, key, more in (
            ("g", ("id",), {"cursor": "at"}),
            ("g", ("id", "v"), {}),
            ("parted", ("id",), {}),
        )
    )
    bench.source = replace(bench.source, username="partly")
    bench.password = "s"
    report = assert_done(bench.load(seen, chunk_rows=500))
    for table in (unindexed, parted):
        assert_done(bench.load(table, chunk_rows=500))
        assert bench.frame(table).count() == 3000
    bench.sql("UPDATE g SET v = 'new', at = clock_timestamp() WHERE id = 7")
    report = assert_done(bench.sync(seen, report.facts["bound"]))
    assert report.facts["rows"] >= 1
    assert bench.frame(seen).where("v = 'new'").count() == 1
    assert_done(bench.verify(seen))

    bench.sql("REVOKE SELECT (v) ON g FROM partly")
    report = bench.sync(seen, report.facts["position"]["to"])
    assert report.error is not None
    assert report.error.code == "source_changed"
    assert "column v is gone, or this login may not SELECT it" in report.error.message
    bench.sql("DROP OWNED BY partly")


def without(table: TableSpec, *names: str) -> TableSpec:
    columns = [c for c in table.columns if c.source_name not in names]
    return replace(table, columns=tuple(columns))
