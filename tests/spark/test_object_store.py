"""A whole table's life on an object store: load, syncs, compaction and a fenced writer
in one story, then, as a long test, a killed driver and what the gateway's engine shows.

Stories, because every step of them costs: the parts are tested on file lakes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from core.object_store import hadoop_properties
from ingest.driver.apply import writer
from ingest.driver.session import use_store
from ingest.driver.sessions import ApplySessions
from ingest.lake.fence import fence_path, raise_fence
from ingest.lake.place import place_at, use_object_store
from ingest.pipelines import samples
from tests.object_store import ObjectStore
from tests.spark.driver_process import DriverProcess
from tests.spark.engine_bench import EngineBench
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import UNSENT, LogBench, cut
from tests.spark.test_log_session import Heard
from tests.waiting import LIMIT_SECONDS, wait_for

COMPLETING = r"PUT /.*/\.hoodie/timeline/\d+_\d+\.deltacommit$"
WRITING = r"PUT /.*/\.[0-9a-f-]+_\d+\.log\."


@pytest.fixture
def bench(spark: Any, source_pg: Any, object_store: ObjectStore) -> Iterator[LakeBench]:
    use_store(spark, object_store.access)
    made = LakeBench(spark, source_pg.create_database("s3"), object_store.new_lake())
    yield made
    made.close()
    use_object_store(None)


@pytest.fixture
def jars() -> str:
    from config.toolchain.paths import spark_classpath

    return spark_classpath("s3")


def wanted(bench: LakeBench) -> list[tuple[Any, ...]]:
    return sorted(bench.sql("SELECT id, v FROM o"))


def change(bench: LakeBench, text: str) -> None:
    bench.sql(f"UPDATE o SET v = '{text}', at = now() WHERE id = 1")


def loaded(bench: LakeBench) -> tuple[Any, str]:
    """A table of 500 rows and the bound of its load."""
    bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
    )
    bench.sql(
        "INSERT INTO o SELECT g, 'load', now() - interval '1 day'"
        " FROM generate_series(1, 500) g"
    )
    table = bench.table("o", cursor="at", estimated_rows=500, buckets=1)
    assert table.path.startswith("s3://")
    done = assert_done(bench.load(table))
    assert done.facts["committed_rows"] == 500
    assert not place_at(table.staging).exists()
    return table, done.facts["bound"]


@pytest.mark.long
def test_a_table_lives_on_an_object_store(
    bench: LakeBench, object_store: ObjectStore, settings: Any
) -> None:
    table, low = loaded(bench)
    change(bench, "sync")
    first = assert_done(bench.sync(table, low))
    is_fenced(bench, object_store, table, first.facts["position"]["to"])

    bench.take_over(table, 3)
    assert_done(bench.sync(table, first.facts["position"]["to"], token=3))
    compacted = assert_done(bench.compact(table))
    assert len(compacted.facts["instants"]) == 1
    assert bench.rows(table, "id", "v") == wanted(bench)
    settings.SLUICE_OBJECT_STORE = object_store.access
    batches = samples._batches(table.path, ["id", "v"])
    assert sum(len(batch) for batch in batches) == 500


def test_a_table_is_followed_on_an_object_store(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its segments lie there, too; what is merged is written on the driver's disk."""
    table, _ = loaded(bench)
    log, heard = LogBench(bench), Heard()
    log.close(*cut(table))
    sessions = ApplySessions(bench.spark, secrets=bench.answer, report=heard.hear)
    at = "2024-01-01 00:00:00+00"
    log.segment(table, ("update", 1, "log", at), ("delete", 2, None, None))
    last = log.segment(table, ("delete", 3, None, None), ("moved", 900, UNSENT, at))
    sessions.set(log.work(table))
    try:
        heard.has_applied(table, last.number)
        monkeypatch.setattr(writer, "MOST_ROWS", 0)
        last = log.segment(table, ("update", 4, "by Spark", at))
        heard.has_applied(table, last.number)
    finally:
        sessions.end(LIMIT_SECONDS)
    rows = dict(bench.rows(table, "id", "v"))
    assert len(rows) == 499
    assert [rows[key] for key in (1, 4, 900)] == ["log", "by Spark", "load"]


@pytest.mark.long
def test_its_driver_is_killed_and_the_engine_shows_it(
    bench: LakeBench, object_store: ObjectStore, jars: str, tmp_path: Path
) -> None:
    table, low = loaded(bench)
    change(bench, "sync")
    survives_a_kill(bench, object_store, table, low=low, jars=jars, scratch=tmp_path)
    assert_done(bench.compact(table))
    shows_in_the_engine(bench, object_store, table, jars=jars, home=tmp_path / "engine")


def is_fenced(
    bench: LakeBench, object_store: ObjectStore, table: Any, low: str
) -> None:
    """The fence rises while the writer's data is on its way: it cannot complete."""
    place = fence_path(bench.lake, table.table_id)

    def supersede() -> bool:
        raise_fence(place, 2)
        return True

    change(bench, "fenced")
    with object_store.watched(WRITING, supersede):
        report = bench.sync(table, low)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "fenced")
    assert len(bench.state(table).timeline.pending_writes) == 1
    assert {r[1] for r in bench.rows(table, "id", "v")} == {"load", "sync"}


def survives_a_kill(
    bench: LakeBench,
    object_store: ObjectStore,
    table: Any,
    *,
    low: str,
    jars: str,
    scratch: Path,
) -> None:
    """A driver dies with everything written and nothing completed; the next one, with
    a newer token, undoes that and commits."""
    reached, ended = threading.Event(), threading.Event()

    def hold() -> bool:
        reached.set()
        ended.wait(LIMIT_SECONDS)
        return False

    bench.take_over(table, 2)
    store = json.dumps(asdict(object_store.access))
    driver = DriverProcess(jars, scratch / "driver", bench.password, store=store)
    try:
        with object_store.watched(COMPLETING, hold):
            spec = bench.sync_spec(table, low, token=2)
            driver.run(spec)
            wait_for(lambda: reached.is_set() or driver.has_ended(spec), "its commit")
            assert reached.is_set(), driver.log.read_text()[-3000:]
            driver.end()
            ended.set()
    finally:
        ended.set()
        driver.end()
    logged = [p.read_text(errors="replace") for p in driver.events.iterdir()]
    for text in (*logged, driver.log.read_text(errors="replace")):
        assert object_store.access.secret_key not in text
    assert len(bench.state(table).timeline.pending_writes) == 1
    bench.take_over(table, 3)
    report = assert_done(bench.sync(table, low, token=3))
    assert report.facts["rows"] == 1
    assert bench.state(table).timeline.pending_writes == ()
    assert bench.rows(table, "id", "v") == wanted(bench)


def shows_in_the_engine(
    bench: LakeBench, object_store: ObjectStore, table: Any, *, jars: str, home: Path
) -> None:
    home.mkdir()
    paths = tuple(Path(jar) for jar in jars.split(":"))
    engine = EngineBench(home, paths, store=hadoop_properties(object_store.access))
    try:
        engine.table("shop.t1", table.path)
        engine.policy("ann", select=["shop.t1"])
        ann = engine.connect("ann")
        assert sorted(ann.rows("SELECT id, v FROM lake.shop.t1")) == wanted(bench)
        key = object_store.access.secret_key
        for asked in (
            "SET fs.s3a.secret.key",
            "SET spark.hadoop.fs.s3a.secret.key",
            "SET -v",
            "SELECT '${fs.s3a.secret.key}'",
            "SELECT * FROM parquet.`" + table.path + "`",
        ):
            assert key not in ann.run(asked).visible_text
        assert ann.run("SET fs.s3a.secret.key").is_refused
        # a wrong key is no way in, and says nothing of the store
        assert key not in engine.log.read_text(errors="replace")
        ann.close()
    finally:
        engine.close()
