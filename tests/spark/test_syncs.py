"""Timestamp syncs: nothing inside the window is missed, nothing is applied twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ingest.contract.job import RepairWork
from ingest.contract.positions import from_text, to_text
from ingest.driver.apply import apply, writer
from ingest.driver.serve import SparkWork
from ingest.lake import files
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.options import (
    CommitPosition,
    WriterFence,
    encode_position,
    write_options,
)
from ingest.lake.place import place_at
from tests.spark.beginnings import fixture_of
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt

CREATE = "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
ROWS = "INSERT INTO o SELECT g, 'load', now() - interval '1 day' FROM generate_series(1, 5) g"


loaded = fixture_of(CREATE, ROWS)


def values(bench: LakeBench, table: Any) -> dict[int, str]:
    return {r[0]: r[1] for r in bench.rows(table, "id", "v")}


def work_of(bench: LakeBench, spec: Any) -> int:
    return SparkWork(bench.spark, f"sluice-{spec.job_id}").total()


def test_syncs_carry_changes_and_leave_nothing_beside_their_commits(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    files = lake_files(bench)
    bench.sql(
        "UPDATE o SET v = 'new', at = now() WHERE id = 2; INSERT INTO o VALUES (9, 'nine')"
    )
    before = bench.state(table).position
    assert before is not None
    spec = bench.sync_spec(table, low)
    first = assert_done(bench.run(spec))
    assert first.facts["rows"] == 2
    assert work_of(bench, spec) > 0
    assert values(bench, table)[2] == "new"
    assert values(bench, table)[9] == "nine"
    state = bench.state(table)
    assert state.position is not None
    assert state.position.epoch_to == first.facts["epoch"] == before.epoch_to + 1
    end = first.facts["position"]["to"]
    assert (state.position.start, state.position.end) == (low, end)
    # nothing changed: no commit
    spec = bench.sync_spec(table, end)
    quiet = assert_done(bench.run(spec))
    assert work_of(bench, spec) == 0, "Spark is dear, and most tables are quiet"
    assert (quiet.facts["rows"], quiet.facts["instant"]) == (0, None)
    assert len(bench.state(table).commits) == 2
    assert lake_files(bench) == files


def lake_files(bench: LakeBench) -> list[str]:
    return sorted(f.path for f in (place_at(bench.lake) / "_sluice").files())


def test_a_clock_behind_the_newest_commit_writes_nothing(loaded: Any) -> None:
    bench, table, low = loaded
    (done,) = (Path(table.path) / ".hoodie" / "timeline").glob("*_*.commit")
    ahead = f"{datetime.now(UTC) + timedelta(hours=1):%Y%m%d%H%M%S}000"
    later = done.rename(done.with_name(f"{done.name.partition('_')[0]}_{ahead}.commit"))
    bench.sql("INSERT INTO o VALUES (9, 'nine')")
    behind = bench.sync(table, low)
    assert behind.outcome == "transient"
    assert behind.error is not None
    assert behind.error.code == "clock_behind"
    later.rename(done)
    assert_done(bench.sync(table, low))
    assert values(bench, table)[9] == "nine"


def test_an_open_transaction_holds_the_bound_and_its_rows_arrive(loaded: Any) -> None:
    bench, table, low = loaded
    with psycopg.connect(bench.dsn) as other:
        other.execute("INSERT INTO o VALUES (7, 'late')")
        bench.sql("INSERT INTO o VALUES (8, 'after')")
        held = assert_done(bench.sync(table, low))
        assert held.facts["held_back"]["pid"] == other.info.backend_pid
        assert held.facts["held_back"]["age_seconds"] > 0
        assert 8 not in values(bench, table)
    done = assert_done(bench.sync(table, held.facts["position"]["to"]))
    assert done.facts["held_back"] is None
    assert values(bench, table) == {
        **dict.fromkeys(range(1, 6), "load"),
        7: "late",
        8: "after",
    }


def test_a_row_that_never_rests_is_carried_too(loaded: Any) -> None:
    """It is always younger than the lag allows, whenever anybody looks."""
    bench, table, _ = loaded
    done = assert_done(bench.load(table, kind="resync", lag=7200))
    bench.sql("UPDATE o SET v = 'hot', at = now() WHERE id = 2")
    now = bench.sql("SELECT now()")[0][0]
    low, half = done.facts["bound"], to_text(now - timedelta(minutes=30), has_zone=True)
    first = assert_done(bench.sync(table, low, lag=3600))
    assert values(bench, table)[2] == "hot"
    assert low < first.facts["position"]["to"] < half, "not ahead of what may commit"
    bench.sql("UPDATE o SET v = 'rests' WHERE id = 2")
    assert_done(bench.sync(table, first.facts["position"]["to"]))
    assert values(bench, table)[2] == "rests"


def test_without_the_right_to_see_transactions_the_report_says_so(loaded: Any) -> None:
    bench, table, low = loaded
    bench.sql("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'p'")
    bench.sql("GRANT SELECT ON o TO plain")
    bench.source = replace(bench.source, username="plain")
    bench.password = "p"
    with psycopg.connect(bench.dsn) as other:
        other.execute("SELECT 1")
        reports = [bench.sync(table, low), bench.load(table, kind="resync")]
    for report in reports:
        told = assert_done(report).warnings
        assert any("pg_read_all_stats" in w for w in told), told
    bench.sql("DROP OWNED BY plain")


def test_a_cursor_without_zone_stays_behind_the_hour_that_comes_twice(
    lake_bench: LakeBench,
) -> None:
    """Whatever the season: the zone's lowest offset of the year is 5 hours."""
    lake_bench.sql("ALTER DATABASE shop SET timezone TO 'America/New_York'")
    lake_bench.sql("CREATE TABLE o (id int PRIMARY KEY, at timestamp)")
    table = lake_bench.table("o", cursor="at")
    report = assert_done(lake_bench.load(table))
    assert any("up to 18000 s later" in w for w in report.warnings), report.warnings
    utc = lake_bench.sql("SELECT clock_timestamp() AT TIME ZONE 'UTC'")[0][0]
    behind = utc.replace(tzinfo=UTC) - from_text(report.facts["bound"])
    assert timedelta(hours=5) < behind < timedelta(hours=5.5)


def test_a_large_window_is_cut_without_splitting_equal_cursors(loaded: Any) -> None:
    bench, table, low = loaded
    bench.sql("INSERT INTO o SELECT 100 + g, 'x', now() FROM generate_series(1, 4) g")
    bench.sql("INSERT INTO o SELECT 200 + g, 'y', now() FROM generate_series(1, 4) g")
    first = assert_done(bench.sync(table, low, max_rows=2))
    assert (first.facts["rows"], first.facts["more"]) == (4, True)
    second = assert_done(bench.sync(table, first.facts["position"]["to"], max_rows=50))
    assert (second.facts["rows"], second.facts["more"]) == (4, False)
    assert len(values(bench, table)) == 13


def test_a_sync_that_died_is_read_again_and_never_reported_twice(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, table, low = loaded
    bench.sql("UPDATE o SET v = 'read', at = now() WHERE id = 1")
    known = bench.state(table).position.epoch_to
    spec = bench.sync_spec(table, low, behind=known)

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "the lake is away")

    with monkeypatch.context() as patch:
        patch.setattr(apply, "commit_rows", broken)
        assert bench.run(spec).outcome == "transient"
    assert values(bench, table)[1] == "load"
    bench.sql("UPDATE o SET v = 'later', at = now() WHERE id = 1")
    done = assert_done(bench.run(with_attempt(spec, 2)))
    assert values(bench, table)[1] == "later"
    # the report of the second may be lost
    again = assert_done(bench.run(with_attempt(spec, 3)))
    for fact in ("instant", "epoch", "rows", "bytes", "completed_at"):
        assert again.facts[fact] == done.facts[fact]
    assert again.facts["position"]["from"] == done.facts["position"]["to"]
    assert len(bench.state(table).commits) == 2


def test_what_is_committed_fails_no_job(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were staged stay when the storage does not let them go."""
    bench, table, low = loaded
    real = files.LocalPlace.delete_all

    def broken(place: Any) -> None:
        if place.name.endswith("-1"):
            raise OSError(5, "the lake is away")
        real(place)

    bench.sql("UPDATE o SET v = 'one', at = now() WHERE id = 1")
    with monkeypatch.context() as patch:
        patch.setattr(files.LocalPlace, "delete_all", broken)
        assert_done(bench.sync(table, low))
    assert values(bench, table)[1] == "one"


def test_drift_is_refused_before_anything_is_read(loaded: Any) -> None:
    bench, table, low = loaded
    report = bench.sync(replace(table, buckets=8), low)
    assert report.outcome == "terminal"
    assert report.error is not None
    assert report.error.code == "identity_drift"
    assert "2" in report.error.message
    assert "8" in report.error.message


def test_rows_that_lack_a_column_of_the_table_are_refused(loaded: Any) -> None:
    bench, table, low = loaded
    bench.sql("UPDATE o SET at = now() WHERE id = 1")
    slim = replace(table, columns=tuple(c for c in table.columns if c.name != "v"))
    report = bench.sync(slim, low)
    assert report.error is not None
    assert report.error.code == "missing_columns"
    assert values(bench, table)[1] == "load"


def test_a_deleted_row_never_shows(loaded: Any) -> None:
    """The delete marker is in place from the start, although this capture sees no
    deletes: log capture later rebuilds nothing."""
    bench, table, _ = loaded
    frame = (
        bench.frame(table)
        .where("id = 3")
        .drop(*[c for c in bench.frame(table).columns if c.startswith("_hoodie")])
        .selectExpr(
            "id",
            "v",
            "at",
            "cast(9999999999 as bigint) _sluice_seq",
            "true _sluice_deleted",
        )
    )
    identity = identity_for(table)
    fence = WriterFence(f"{bench.lake}/_sluice/fence/{table.table_id}", 1)
    position = CommitPosition(1, "", "", 900, 900, "delete", 1, identity)
    options = write_options(
        identity,
        name=table.name,
        fence=fence,
        operation="upsert",
        position=encode_position(position),
    )
    frame.write.format("hudi").options(**options).mode("append").save(table.path)
    assert sorted(values(bench, table)) == [1, 2, 4, 5]
    assert_done(bench.compact(table))
    assert sorted(values(bench, table)) == [1, 2, 4, 5]


def test_a_partitioned_table_keeps_one_row_per_key(lake_bench: LakeBench) -> None:
    lake_bench.sql(
        "CREATE TABLE p (id int PRIMARY KEY, area text, at timestamptz DEFAULT now())"
    )
    lake_bench.sql(
        "INSERT INTO p SELECT g, CASE g % 3 WHEN 0 THEN 'a/b' WHEN 1 THEN 'n' END FROM generate_series(1, 9) g"
    )
    table = lake_bench.table("p", cursor="at", partition_by=("area",))
    low = assert_done(lake_bench.load(table)).facts["bound"]
    lake_bench.sql("UPDATE p SET at = now()")
    assert assert_done(lake_bench.sync(table, low)).facts["rows"] == 9
    areas = {r[0]: r[1] for r in lake_bench.frame(table).select("id", "area").collect()}
    assert lake_bench.frame(table).count() == 9
    assert areas[3] == "a/b"
    assert areas[1] == "n"
    assert areas[2] is None
    # what the plan warns of, and its way out
    lake_bench.sql("UPDATE p SET area = 'moved', at = clock_timestamp() WHERE id = 1")
    assert_done(lake_bench.sync(table, low))
    assert lake_bench.frame(table).where("id = 1").count() == 2
    assert assert_done(lake_bench.verify(table)).facts["verdict"] == "different"
    work = RepairWork("deduplicate")
    assert_done(lake_bench.run(lake_bench.spec("repair", table, repair=work)))
    assert lake_bench.rows(table, "id", "area")[0] == (1, "moved")
    assert lake_bench.frame(table).count() == 9


def test_only_certainly_unique_keys_skip_the_combining(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique: list[bool] = []
    real = apply.commit_rows

    def committed(spec: Any, batch: Any, state: Any) -> Any:
        unique.append(batch.unique_keys)
        return real(spec, batch, state)

    monkeypatch.setattr(writer, "MOST_ROWS", 0)
    for name, constraint in (("u", "UNIQUE"), ("k", "")):
        lake_bench.sql(
            f"CREATE TABLE {name} (id int NOT NULL {constraint}, v text,"
            " at timestamptz DEFAULT now())"
        )
        table = lake_bench.table(name, cursor="at")
        low = assert_done(lake_bench.load(table)).facts["bound"]
        lake_bench.sql(f"INSERT INTO {name} VALUES (1, 'one')")
        with monkeypatch.context() as patch:
            patch.setattr(apply, "commit_rows", committed)
            report = assert_done(lake_bench.sync(table, low))
        assert unique.pop() == bool(constraint)
        assert any("no unique index" in w for w in report.warnings) != bool(constraint)
        assert values(lake_bench, table) == {1: "one"}


@pytest.mark.parametrize("is_one_sync", [True, False])
def test_a_key_that_stopped_being_unique_stops_the_sync(
    loaded: Any, is_one_sync: bool
) -> None:
    """Five keys become ten rows by a second column of the key: the lake would have
    kept five of them. Also where the twins come one sync apart."""
    bench, table, low = loaded
    bench.sql(
        "ALTER TABLE o ADD region text NOT NULL DEFAULT 'eu', DROP CONSTRAINT o_pkey,"
        " ADD PRIMARY KEY (id, region)"
    )
    others = "INSERT INTO o (id, v, region) SELECT g, 'us', 'us' FROM generate_series(1, 5) g"
    bench.sql("UPDATE o SET v = 'eu', at = now()" if is_one_sync else others)
    if is_one_sync:
        bench.sql(others)
    refused = bench.sync(table, low)
    assert refused.outcome == "invalid_request"
    assert refused.error is not None
    assert refused.error.code == "repeated_keys"
    assert "5 keys" in refused.error.message
    assert values(bench, table) == dict.fromkeys(range(1, 6), "load")
    # nothing is lost: once the keys are unique again, it goes on from where it was
    bench.sql("DELETE FROM o WHERE region = 'eu'")
    assert_done(bench.sync(table, low))
    assert values(bench, table) == dict.fromkeys(range(1, 6), "us")


def test_a_key_that_a_child_repeats_stops_load_and_sync(lake_bench: LakeBench) -> None:
    """A SELECT of a parent reads its children, whose keys its index does not cover."""
    lake_bench.sql(CREATE)
    lake_bench.sql("CREATE TABLE child () INHERITS (o)")
    lake_bench.sql("INSERT INTO o VALUES (1, 'parent')")
    lake_bench.sql("INSERT INTO child VALUES (2, 'child')")
    table = lake_bench.table("o", cursor="at")
    low = assert_done(lake_bench.load(table)).facts["bound"]
    assert values(lake_bench, table) == {1: "parent", 2: "child"}
    lake_bench.sql("INSERT INTO child VALUES (1, 'twin')")
    for report in (lake_bench.sync(table, low), lake_bench.load(table, kind="resync")):
        assert report.error is not None
        assert report.error.code == "repeated_keys"
    assert values(lake_bench, table) == {1: "parent", 2: "child"}


def test_a_table_with_a_domain_loads_and_syncs(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
    lake_bench.sql(
        "CREATE TABLE dom (id bigint PRIMARY KEY, c positive, many positive[],"
        " at timestamptz DEFAULT now())"
    )
    lake_bench.sql("INSERT INTO dom VALUES (1, 5, '{1,2}')")
    made = lake_bench.table("dom", cursor="at")
    # as discovery plans them
    types = {"c": ("integer", "int"), "many": ("integer[]", "array<string>")}
    columns = tuple(
        replace(c, source_type=types[c.name][0], type=types[c.name][1])
        if c.name in types
        else c
        for c in made.columns
    )
    table = replace(made, columns=columns)
    low = assert_done(lake_bench.load(table)).facts["bound"]
    lake_bench.sql("UPDATE dom SET c = 6, at = now()")
    assert_done(lake_bench.sync(table, low))
    assert lake_bench.rows(table, "id", "c", "many") == [(1, 6, ["1", "2"])]
    assert assert_done(lake_bench.verify(table)).facts["verdict"] == "equal"
