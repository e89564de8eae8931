"""Small batches are committed without a Spark job, and nothing else can tell.

Each operation on a table is run behind both writers, and both write behind it; the
source says what the lake has to be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import ErrorFact, RepairWork
from ingest.contract.table import TableSpec
from ingest.contract.written import Totals, Wrote
from ingest.driver import run
from ingest.driver.apply import apply, writer
from ingest.driver.table_services import cleaning
from ingest.lake.hudi import keeping, options
from ingest.lake.layout import read_layout
from ingest.lake.place import place_at
from ingest.lake.upkeep import read_written
from tests.long_tests import first_then_long
from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_odd_values import planned
from tests.spark.test_repair import mend
from tests.spark.test_stalled_sync import unfinished
from tests.waiting import LIMIT_SECONDS

CREATE = """CREATE TABLE o (id int PRIMARY KEY, v text,
  at timestamptz DEFAULT clock_timestamp())"""
ROWS = """INSERT INTO o SELECT g, 'load', now() - interval '1 day'
  FROM generate_series(1, 50) g"""


class Writers:
    """Chooses who writes, and knows who did."""

    def __init__(self, bench: LakeBench, table: TableSpec, low: str) -> None:
        self.bench, self.table, self.low = bench, table, low
        self.token = 1

    def sync(self, by: str, statement: str, *, is_light: bool = True, **k: Any) -> Any:
        """By "spark", or as it is chosen: "light". is_light: what comes of that."""
        self.bench.sql(statement)
        made: list[bool] = []
        real = writer.commit_light

        def seen(*args: Any) -> bool:
            made.append(real(*args))
            return made[-1]

        with pytest.MonkeyPatch.context() as patch:
            if by == "spark":
                patch.setattr(writer, "MOST_ROWS", 0)
            patch.setattr(writer, "commit_light", seen)
            given = {"compact_after": 99, "token": self.token, **k}
            report = assert_done(self.bench.sync(self.table, self.low, **given))
        self.low = report.facts["position"]["to"]
        assert any(made) == (by == "light" and is_light)
        return report

    def change(self, by: str, text: str) -> Any:
        return self.sync(
            by,
            f"UPDATE o SET v = '{text}', at = clock_timestamp() WHERE id % 7 = 0;"
            f"INSERT INTO o SELECT max(id) + 1, '{text}' FROM o",
        )

    def take_over(self) -> None:
        self.token += 1
        self.bench.take_over(self.table, self.token)

    def wanted(self) -> list[tuple[Any, ...]]:
        return self.bench.sql("SELECT id, v FROM o ORDER BY id")

    def seen(self) -> list[tuple[Any, ...]]:
        return self.bench.rows(self.table, "id", "v")

    def require_equal(self) -> None:
        assert self.seen() == self.wanted()


@pytest.fixture
def writers(lake_bench: LakeBench, beginnings: Beginnings) -> Writers:
    table, facts = beginnings.copy(lake_bench, loaded_from(CREATE, ROWS))
    return Writers(lake_bench, table, facts["bound"])


def test_both_write_one_table(writers: Writers) -> None:
    writers.change("light", "one")
    writers.require_equal()
    writers.change("spark", "two")
    writers.change("light", "three")
    writers.require_equal()
    state = writers.bench.state(writers.table)
    newest, older = state.commits[:2]
    assert (newest.operation, newest.instant.action) == ("UPSERT", "deltacommit")
    assert (newest.rows_written, older.rows_written) == (8, 8)
    assert newest.position == state.position
    assert newest.schema == older.schema
    assert not list((Path(writers.table.path) / ".hoodie" / ".temp").glob("*"))
    assert not list((Path(writers.table.path) / ".hoodie" / ".heartbeat").glob("2*"))
    layout = read_layout(writers.table.path, state.timeline)
    assert [group.log_files for group in layout.groups] == [3, 3]
    assert (layout.unfinished_files, layout.conflicts) == (0, {})


def compacted(writers: Writers) -> None:
    assert len(assert_done(writers.bench.compact(writers.table)).facts["instants"]) == 1
    layout = read_layout(
        writers.table.path, writers.bench.state(writers.table).timeline
    )
    assert {group.log_files for group in layout.groups} == {0}


def cleaned(writers: Writers) -> None:
    work = RepairWork("clean")
    spec = writers.bench.spec("repair", writers.table, repair=work)
    assert_done(writers.bench.run(replace(spec, keep_seconds=0)))


def restored(writers: Writers) -> None:
    bench, table, low = writers.bench, writers.table, writers.low
    rows = writers.seen()
    kept = assert_done(mend(bench, table, "savepoint")).facts["savepoint"]
    for by in ("light", "spark"):
        writers.change(by, f"{by} is taken back")
    assert_done(mend(bench, table, "restore", kept))
    assert writers.seen() == rows
    # what came since is read again
    writers.low = low


def rolled_back(writers: Writers) -> None:
    """What a light write and one of Spark's left behind whose fence rose meanwhile."""
    rows = writers.seen()
    for by in ("light", "spark"):
        superseded(writers, by)
        assert writers.seen() == rows
        work = RepairWork("rollback")
        spec = writers.bench.spec(
            "repair", writers.table, repair=work, token=writers.token
        )
        assert len(assert_done(writers.bench.run(spec)).facts["rolled_back"]) == 1
        assert unfinished(writers.table) == []


def superseded(writers: Writers, by: str) -> None:
    """The fence rises when the files are written and the commit is not."""
    error = held(writers, by, then=lambda: writers.take_over())
    assert error.code == "fenced"
    assert len(unfinished(writers.table)) == 1


def held(
    writers: Writers, by: str, *, then: Callable[[], None], is_fenced: bool = True
) -> ErrorFact:
    """Why a sync is refused that waited at the last look at its fence for `then`.
    is_fenced: what it sees there is another token."""
    bench, table = writers.bench, writers.table
    bench.sql("UPDATE o SET v = 'fenced', at = clock_timestamp() WHERE id % 3 = 0")
    spec = bench.sync_spec(table, writers.low, token=writers.token)
    fence = HeldFence(spec.fence.path, writers.token)
    reports: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        if by == "spark":
            patch.setattr(writer, "MOST_ROWS", 0)
        sync = threading.Thread(target=lambda: reports.append(bench.run(spec)))
        sync.start()
        fence.hold_at(lambda: bool(unfinished(table)), "its commit")
        fence.put_back()
        then()
        fence.answer(spec.fence.token + is_fenced)
        sync.join(LIMIT_SECONDS)
    (report,) = reports
    assert report.outcome == "transient", report
    return report.error


def deduplicated(writers: Writers) -> None:
    done = assert_done(mend(writers.bench, writers.table, "deduplicate"))
    assert "No duplicates" in done.facts["summary"]


def resized(writers: Writers) -> None:
    count = writers.table.buckets + 1
    work = RepairWork("resize", buckets=count)
    spec = writers.bench.spec("repair", writers.table, repair=work)
    assert_done(writers.bench.run(spec))
    writers.table = replace(writers.table, buckets=count)


def verified(writers: Writers) -> None:
    assert writers.bench.verify(writers.table).facts["verdict"] == "equal"


OTHERS = restored, cleaned, rolled_back, deduplicated, resized, verified


@pytest.mark.parametrize("operation", first_then_long(compacted, *OTHERS))
def test_each_operation_behind_each_writer(
    writers: Writers, operation: Callable[[Writers], None]
) -> None:
    for first, second in (("light", "spark"), ("spark", "light")):
        writers.change(second, f"before {first}")
        writers.change(first, f"first {first}")
        operation(writers)
        for by in (first, second):
            writers.change(by, f"{by} behind")
        writers.require_equal()
    compacted(writers)
    writers.require_equal()


EVERY_TYPE = """
CREATE TABLE types (id bigint, name text, at timestamptz NOT NULL,
  small smallint, whole int, big bigint, is_so boolean, half real, double_ float8,
  n9 numeric(9,2), n18 numeric(18,3), n38 numeric(38,10), free numeric, day date,
  plain timestamp, zoned timestamptz, clock time, text_ text, bytes bytea, doc jsonb,
  u uuid, words text[], numbers int[], days date[], zones timestamptz[],
  PRIMARY KEY (id, name));
INSERT INTO types SELECT g, 'k', now() - interval '1 day'
  FROM generate_series(1, 40) g;
"""
# one value of each column that is at an end of what its type holds, and in between
ENDS: dict[str, tuple[str, ...]] = {
    "small": ("-32768", "32767", "0"),
    "whole": ("-2147483648", "2147483647", "7"),
    "big": ("-9223372036854775808", "9223372036854775807", "0"),
    "is_so": ("true", "false"),
    "half": ("'NaN'", "'-Infinity'", "1.1", "'-0'"),
    "double_": ("'NaN'", "'Infinity'", "1e-300", "'-0'", "0.1"),
    "n9": ("-9999999.99", "0.01", "'NaN'"),
    "n18": ("-999999999999999.999", "0.001"),
    "n38": ("9999999999999999999999999999.9999999999", "-0.0000000001"),
    "free": ("1.5", "-123456789012345678901234567890.123", "'NaN'"),
    "day": ("'0001-01-01'", "'9999-12-31'", "'1582-10-10'", "'infinity'", "'0044-03-15 BC'"),
    "plain": ("'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'1500-02-28 1:2:3.000001'"),
    "zoned": ("'0001-01-02 00:00+00'", "'9999-12-31 20:00:00.999999+00'", "'-infinity'"),
    "clock": ("'23:59:59.999999'", "'00:00'"),
    "text_": ("''", "'a,b:c%'", "'\U0001f600 äöü'", "repeat('x', 5000)"),
    "bytes": (r"'\x'", r"'\x00ff10'"),
    "doc": ("'{\"a\": [1, null]}'", "'null'"),
    "u": ("'00000000-0000-0000-0000-0000000000ff'",),
    "words": ("'{a,NULL,\"\"}'", "'{}'"),
    "numbers": ("'{1,NULL,-2147483648}'", "'{}'"),
    "days": ("'{0001-01-01,NULL,infinity}'", "'{9999-12-31}'"),
    "zones": ("'{\"2020-01-02 03:04:05.123456+00\",NULL}'", "'{}'"),
}  # fmt: skip


def changed_types(bench: LakeBench) -> None:
    """Row by row other values of each column, and NULLs."""
    for row in range(12):
        values = []
        for place, (name, ends) in enumerate(ENDS.items()):
            turn = (row + place) % (len(ends) + 1)
            value = "NULL" if turn == len(ends) else ends[turn]
            values.append(f'"{name}" = {value}')
        bench.sql(
            f"UPDATE types SET {', '.join(values)}, at = clock_timestamp()"
            f" WHERE id = {row + 1}"
        )
    bench.sql(
        "INSERT INTO types (id, name, at) VALUES (99, 'a,b:%', clock_timestamp()),"
        " (99, '', clock_timestamp()), (99, '\U0001f600', clock_timestamp())"
    )


def test_every_type_is_written_alike(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch both ways: the rows that are written, then the rows that are read."""
    lake_bench.link.execute(EVERY_TYPE)
    table = planned(lake_bench, "types", key=("id", "name"), cursor="at")
    low = assert_done(lake_bench.load(table)).facts["bound"]
    changed_types(lake_bench)
    pairs = both_frames(monkeypatch)
    made = lake_bench.sync_spec(table, low)
    report = assert_done(lake_bench.run(made))
    ((ours, sparks, lossy, sparks_lossy),) = pairs
    assert len(ours) == 15
    assert ours == sparks
    assert lossy == sparks_lossy == report.facts["lossy"]
    assert lossy.keys() >= {"day", "n9", "zoned", "days"}

    by_light = whole(lake_bench, table)
    assert lake_bench.verify(table).facts["verdict"] == "equal"
    # the same rows once more, by Spark
    lake_bench.sql("UPDATE types SET at = clock_timestamp() WHERE id <= 12 OR id = 99")
    monkeypatch.setattr(writer, "MOST_ROWS", 0)
    assert_done(lake_bench.sync(table, report.facts["position"]["to"]))
    assert whole(lake_bench, table) == by_light
    assert_done(lake_bench.compact(table))
    assert whole(lake_bench, table) == by_light


def both_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> list[tuple[list[str], list[str], dict[str, int], dict[str, int]]]:
    """Of each light batch its rows and losses, and those that Spark would have had."""
    found = []
    real = apply._light_batch

    def made(run: Any, *about: Any) -> Any:
        batch = real(run, *about)
        if batch is None:
            return None
        lossy, run.lossy = dict(run.lossy), {}
        spark, _, *rest = about
        frame = apply._batch(run, spark, *rest).rows
        ours = batch.rows.frame()
        assert frame.schema == ours.schema
        found.append((texts(ours), texts(frame), lossy, dict(run.lossy)))
        return batch

    monkeypatch.setattr(apply, "_light_batch", made)
    return found


def texts(frame: Any) -> list[str]:
    """Each row as one text that tells NULL, NaN and zeros apart."""
    columns = [
        f"hex(`{name}`)" if kind == "binary" else f"cast(`{name}` as string)"
        for name, kind in frame.dtypes
    ]
    shown = (f"coalesce('=' || {column}, '-')" for column in columns)
    row = f"concat_ws('|', {', '.join(shown)})"
    return sorted(r[0] for r in frame.selectExpr(row).collect())


def whole(bench: LakeBench, table: TableSpec) -> list[str]:
    frame = bench.frame(table)
    names = [n for n in frame.columns if n[0] != "_" and n != "at"]
    return texts(frame.select(*names, "_sluice_key"))


KEYS = {
    "text": ("'ключ ' || g", "'it''s, a:b %'", "''"),
    "uuid": ("md5(g::text)::uuid", "'00000000-0000-0000-0000-0000000000FF'"),
}


@pytest.mark.parametrize("kind", list(KEYS))
def test_single_keys_are_written_alike(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    many, *odd = KEYS[kind]
    lake_bench.sql(
        f"CREATE TABLE keys (k {kind} PRIMARY KEY, v text,"
        " at timestamptz DEFAULT clock_timestamp());"
        f"INSERT INTO keys SELECT {many}, 'load', now() - interval '1 day'"
        " FROM generate_series(1, 40) g"
    )
    table = planned(lake_bench, "keys", key=("k",), cursor="at")
    writers = Writers(
        lake_bench, table, assert_done(lake_bench.load(table)).facts["bound"]
    )
    pairs = both_frames(monkeypatch)
    new = ", ".join(f"({key}, 'new')" for key in odd)
    writers.sync("light", f"INSERT INTO keys (k, v) VALUES {new}")
    for by in ("spark", "light"):
        at = f"v = '{by}', at = clock_timestamp()"
        writers.sync(by, f"UPDATE keys SET {at} WHERE v <> 'load'")
    assert [ours == sparks for ours, sparks, *_ in pairs] == [True, True]
    wanted = lake_bench.sql("SELECT k::text, v FROM keys")
    assert sorted(lake_bench.rows(table, "k", "v")) == sorted(wanted)


@pytest.mark.long
def test_partitions_and_buckets_that_are_not_there_are_for_spark(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, area text,"
        " at timestamptz DEFAULT clock_timestamp());"
        "INSERT INTO o SELECT g, 'load', 'area ' || g % 2, now() - interval '1 day'"
        " FROM generate_series(1, 40) g"
    )
    table = lake_bench.table("o", cursor="at", partition_by=("area",), buckets=2)
    low = assert_done(lake_bench.load(table)).facts["bound"]
    writers = Writers(lake_bench, table, low)
    touch = "UPDATE o SET v = '{}', at = clock_timestamp() WHERE id % 3 = 0"
    writers.sync("light", touch.format("light"))
    insert = "INSERT INTO o VALUES (100, 'x', {}), (101, 'x', {})"
    new = insert.format("'a/b=c'", "'a/b=c'")
    writers.sync("light", new, is_light=False)
    nulls = "INSERT INTO o VALUES (200, 'n', NULL), (201, 'n', '')"
    writers.sync("light", nulls, is_light=False)
    writers.require_equal()
    writers.sync(
        "light", "UPDATE o SET v = 'again', at = clock_timestamp() WHERE id >= 100"
    )
    writers.sync("spark", touch.format("spark"))
    writers.sync("light", touch.format("last"))
    writers.require_equal()
    compacted(writers)
    writers.require_equal()


def test_a_new_column_is_brought_by_spark_and_known_from_then_on(
    writers: Writers,
) -> None:
    writers.change("light", "one")
    writers.bench.sql("ALTER TABLE o ADD extra numeric(8,2)")
    columns = writers.bench.table("o", cursor="at").columns
    writers.table = replace(writers.table, columns=columns)
    more = "UPDATE o SET extra = id / 3.0, at = clock_timestamp() WHERE id % 5 = {}"
    writers.sync("light", more.format(1), is_light=False)
    writers.sync("light", more.format(2))
    writers.require_equal()
    found = writers.bench.rows(writers.table, "id", "extra")
    assert found == writers.bench.sql("SELECT id, extra FROM o ORDER BY id")


def test_rows_that_are_too_many_go_by_spark(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_ROWS", 7)
    writers.sync(
        "light", "UPDATE o SET at = clock_timestamp() WHERE id < 9", is_light=False
    )
    writers.sync("light", "UPDATE o SET at = clock_timestamp() WHERE id < 8")
    monkeypatch.setattr(writer, "MOST_BYTES", 10)
    few = "UPDATE o SET at = clock_timestamp() WHERE id < 3"
    writers.sync("light", few, is_light=False)
    writers.require_equal()


def test_a_footer_is_opened_once(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = writer._footer

    def footer(spark: Any, place: Any) -> Any:
        opened.append(place.uri)
        return real(spark, place)

    monkeypatch.setattr(writer, "_footer", footer)
    writers.change("light", "one")
    assert len(opened) == 1


@pytest.mark.long
def test_instants_go_long_before_the_files_that_a_reader_has(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And time travel reaches behind them, as far as files are kept and no further."""
    monkeypatch.setattr(keeping, "LEAST_COMMITS", 1)
    monkeypatch.setattr(options, "ARCHIVED_DOWN_TO", 3)
    monkeypatch.setattr(cleaning, "ARCHIVED_DOWN_TO", 3)
    monkeypatch.setattr(cleaning, "TIDY_EACH", 4)
    bench, table, rows = writers.bench, writers.table, writers.seen()
    held = bench.frame(table).select("id", "v").rdd
    held.getNumPartitions()  # its files are chosen now, and read by each collect()
    first, most = bench.state(table).timeline.instants[0], 0
    before, _ = written(bench, table, Totals())
    for number in range(18):
        statement = f"UPDATE o SET v = '{number}', at = clock_timestamp() WHERE id = 1"
        assert writers.sync("light", statement, keep_seconds=900.0).warnings == ()
        if number == 3:
            compacted(writers)
            then = bench.state(table).timeline.completed_writes[-1].asked
        if number == 4:
            die_in_the_newest_cleaning(table)
        most = max(most, len(bench.state(table).timeline.instants))
    timeline = bench.state(table).timeline
    assert most <= 20
    assert not timeline.find(first.asked)
    assert not timeline.find(then)
    now, wrote = written(bench, table, before)
    rows_of = {
        action: sum(w.rows for w in wrote if w.action == action) for action in now.rows
    }
    assert rows_of == {"commit": 0, "deltacommit": 18, "compaction": 26}
    assert sorted((row["id"], row["v"]) for row in held.collect()) == rows
    writers.require_equal()
    assert as_of(bench, table, first.completed) == rows
    assert as_of(bench, table, then)[0] == (1, "3")
    with pytest.raises(Exception, match="Cleaner cleaned up"):
        as_of(bench, table, "20200101000000000")
    # a shorter time takes the files away
    assert_done(mend(bench, table, "clean", keep_seconds=0.0))
    with pytest.raises(Exception, match=r"does not exist|FileNotFound"):
        held.collect()
    with pytest.raises(Exception, match="Cleaner cleaned up"):
        as_of(bench, table, first.completed)
    writers.require_equal()
    writers.change("spark", "behind")
    compacted(writers)
    writers.require_equal()
    restored(writers)


@pytest.mark.long
def test_a_timeline_stays_short_whatever_readers_need(writers: Writers) -> None:
    most, bench, table = 0, writers.bench, writers.table
    for number in range(160):
        statement = f"UPDATE o SET v = '{number}', at = clock_timestamp() WHERE id = 1"
        writers.sync("light", statement)
        most = max(most, len(bench.state(table).timeline.instants))
    assert most <= 100
    writers.require_equal()


@pytest.mark.long
def test_what_a_replacement_took_away_stays_away(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its instant hides the old file groups, so it goes when they are gone."""
    monkeypatch.setattr(keeping, "LEAST_COMMITS", 1)
    monkeypatch.setattr(options, "ARCHIVED_DOWN_TO", 2)
    monkeypatch.setattr(cleaning, "ARCHIVED_DOWN_TO", 2)
    monkeypatch.setattr(cleaning, "TIDY_EACH", 2)
    bench, table = writers.bench, writers.table
    old = set(Path(table.path).glob("*.parquet"))
    writers.low = assert_done(bench.load(table, kind="resync")).facts["bound"]
    (replaced,) = bench.state(table).timeline.completed_writes[1:]
    for keep_seconds, is_there in ((900.0, True), (0.0, False)):
        for _ in range(5):
            statement = "UPDATE o SET v = v || '.', at = clock_timestamp() WHERE id = 1"
            writers.sync("light", statement, keep_seconds=keep_seconds)
            writers.require_equal()
        assert bool(bench.state(table).timeline.find(replaced.asked)) == is_there
        assert (old <= set(Path(table.path).glob("*.parquet"))) == is_there


def written(
    bench: LakeBench, table: TableSpec, before: Totals
) -> tuple[Totals, list[Wrote]]:
    return read_written(place_at(table.path), bench.state(table).timeline, before)


def die_in_the_newest_cleaning(table: TableSpec) -> None:
    """It had deleted its files, and completed nothing: the next one does."""
    folder = Path(table.path) / ".hoodie" / "timeline"
    newest = max(folder.glob("*.clean"), key=lambda path: path.name)
    newest.unlink()


def as_of(bench: LakeBench, table: TableSpec, instant: str) -> list[tuple[Any, ...]]:
    read = bench.spark.read.format("hudi").option("as.of.instant", instant)
    return sorted(tuple(r) for r in read.load(table.path).select("id", "v").collect())


def test_a_commit_that_fails_leaves_nothing_behind(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes its own files, at once and by itself, where it still may."""
    monkeypatch.setattr(run, "recover_table", lambda *_: {})
    rows = writers.seen()
    assert held(writers, "light", then=lambda: None).code == "fenced"
    assert unfinished(writers.table) == []
    assert not list((Path(writers.table.path) / ".hoodie" / ".heartbeat").glob("2*"))
    layout = read_layout(
        writers.table.path, writers.bench.state(writers.table).timeline
    )
    assert {group.log_files for group in layout.groups} == {0}
    assert writers.seen() == rows
    writers.change("light", "again")
    writers.require_equal()


@pytest.mark.long
def test_a_driver_that_is_killed_within_a_commit_leaves_nothing_to_see(
    writers: Writers, tmp_path: Path
) -> None:
    from config.toolchain.paths import spark_classpath

    bench, table = writers.bench, writers.table
    writers.change("light", "before")
    rows = writers.seen()
    driver = DriverProcess(spark_classpath(), tmp_path / "driver", bench.password)
    try:
        bench.sql("UPDATE o SET v = 'killed', at = clock_timestamp() WHERE id % 3 = 0")
        spec = bench.sync_spec(table, writers.low)
        fence = HeldFence(spec.fence.path, writers.token)
        driver.run(spec)
        fence.hold_at(lambda: bool(unfinished(table)), "its commit")
        driver.end()
        fence.put_back()
        fence.answer()
    finally:
        driver.end()
    assert len(unfinished(table)) == 1
    assert writers.seen() == rows
    writers.take_over()
    writers.change("light", "after")
    assert unfinished(table) == []
    writers.require_equal()
