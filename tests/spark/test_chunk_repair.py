"""Repair by chunk: what a verification found to differ is read again, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from ingest.contract.job import JobSpec, RepairWork
from ingest.contract.table import SHARD, ColumnSpec, ShardSpec, TableSpec
from ingest.driver.apply.rows import first_of_key, record_key
from ingest.driver.table_services import chunk_repair, reread, verify_log
from ingest.lake.staging import Differences
from ingest.sources.dialects import dialect_of
from ingest.sources.port import Moment
from ingest.sources.select import select_columns
from tests.spark.beginnings import fixture_of
from tests.spark.cut_off import cut_off
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.spark.log_bench import NAME, UNSENT, LogBench, cut, place

CREATE = "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz NOT NULL)"
ROWS = """INSERT INTO o SELECT g, 'load', now() - interval '1 day'
  FROM generate_series(1, 500) g"""
UNSEEN = (
    "UPDATE o SET v = 'unseen' WHERE id = 7",
    "DELETE FROM o WHERE id IN (8, 250)",
    "INSERT INTO o VALUES (900, 'unseen', now() - interval '2 days')",
)


def found_by(bench: LakeBench, table: TableSpec, **k: Any) -> tuple[JobSpec, Any]:
    """The repair of what a verification finds, and the facts of that."""
    spec = bench.verify_spec(table, **k)
    facts = assert_done(bench.run(spec)).facts
    stream = str(k.get("stream", ""))
    work = RepairWork("repair", verification=spec.job_id, stream=stream)
    return bench.spec("repair", table, repair=work), facts


def lake(bench: LakeBench, table: TableSpec, *columns: str) -> list[tuple[Any, ...]]:
    return bench.rows(table, *(columns or ("id", "v")))


def source(bench: LakeBench, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(bench.sql(f"SELECT {', '.join(columns or ('id', 'v'))} FROM o"))


loaded = fixture_of(CREATE, ROWS)


@pytest.mark.long
def test_what_a_cursor_cannot_see_is_repaired(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, table, low = loaded
    for statement in UNSEEN:
        bench.sql(statement)
    spec, facts = found_by(bench, table, chunk_rows=100)
    assert facts["repair"] == {"chunks": 2, "of": 5}
    # one that only the lake had is there again: its chunk is read for keys alone
    bench.sql("INSERT INTO o VALUES (250, 'again', now())")
    before = bench.state(table)
    # another server may have these rows as the lake has them
    kept = Differences(table.staging)
    record = kept.record()
    assert record is not None
    other = {**record.source_fingerprint, "server": "another"}
    kept.keep(replace(record, source_fingerprint=other))
    refused = bench.run(spec).error
    assert refused is not None
    assert refused.code == "source_changed"
    kept.keep(record)
    report = assert_done(bench.run(with_attempt(spec, 2)))
    assert (report.facts["written"], report.facts["deleted"]) == (2, 1)
    unsynced = [(250, "again")]
    assert lake(bench, table) == sorted({*source(bench), (250, "load")} - {*unsynced})
    after = bench.state(table)
    assert after.written_schema == before.written_schema
    assert (after.position.end, after.position.epoch_to) == (
        before.position.end,
        before.position.epoch_to,
    )
    # its verification is used up
    again = bench.run(replace(spec, job_id="another"))
    assert again.error is not None
    assert again.error.code == "differences_gone"
    # it goes on where it was
    bench.sql("UPDATE o SET v = 'after', at = now() WHERE id IN (7, 900, 10)")
    bench.sql("INSERT INTO o VALUES (8, 'after', now())")
    assert_done(bench.sync(table, low, behind=after.position.epoch_to))
    assert lake(bench, table) == source(bench)
    _, facts = found_by(bench, table)
    assert (facts["verdict"], facts["repair"]) == ("equal", None)
    assert not list(Path(table.staging).glob("[dv]*"))
    # with more keys than that nothing is kept
    bench.sql("DELETE FROM o WHERE id < 4")
    monkeypatch.setattr(chunk_repair, "MOST_KEYS", 2)
    _, facts = found_by(bench, table)
    assert (facts["extra"], facts["repair"]) == (3, None)
    assert not list(Path(table.staging).glob("[dv]*"))


class Killed(BaseException):
    """No handler of a job takes it for a failure: what is there stays as it is."""


def _kill(*_: Any, **__: Any) -> None:
    raise Killed


# the place → whether the rows are in the lake then
KILLS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool]] = {
    "read": (lambda p: p.setattr(chunk_repair, "_changed_rows", _kill), False),
    "staged": (lambda p: p.setattr(reread, "commit_rows", _kill), False),
    "committed": (lambda p: p.setattr(Differences, "clear", _kill), True),
}


def test_killed_anywhere_it_ends_as_if_it_had_not_been(loaded: Any) -> None:
    bench, table, _ = loaded
    for statement in UNSEEN:
        bench.sql(statement)
    spec, _ = found_by(bench, table, chunk_rows=100)
    wanted, before = source(bench), lake(bench, table)
    for attempt, (kill, is_there) in enumerate(KILLS.values(), start=1):
        with pytest.MonkeyPatch.context() as patch:
            kill(patch)
            with pytest.raises(Killed):
                bench.run(with_attempt(spec, attempt))
        assert lake(bench, table) == (wanted if is_there else before)
        if not is_there and attempt == 2:
            # a rival takes its place in the middle of the write
            cut_off(bench, with_attempt(spec, 9), "*.deltacommit.inflight")
            fence = replace(spec.fence, token=2)
            spec = replace(spec, fence=fence)
    report = assert_done(bench.run(with_attempt(spec, 10)))
    assert (report.facts["written"], report.facts["deleted"]) == (2, 2)
    assert lake(bench, table) == wanted
    assert len(bench.state(table).timeline.completed_writes) == 2
    assert not list(Path(table.staging).glob("differences"))


@pytest.mark.long
def test_other_keys_and_partitions(lake_bench: LakeBench) -> None:
    """Without an index the table is read whole; a row whose partition changed goes from
    where it was."""
    bench = lake_bench
    bench.sql("CREATE TABLE o (a text, b int, day date, v text)")
    bench.sql(
        "INSERT INTO o SELECT 'x,' || g, g, DATE '2026-01-01' + g % 3, 'load'"
        " FROM generate_series(1, 60) g"
    )
    table = bench.table("o", ("a", "b"), partition_by=("day",))
    assert_done(bench.load(table))
    bench.sql("UPDATE o SET day = day + 1 WHERE b = 5")
    bench.sql("UPDATE o SET v = NULL WHERE b = 6")
    bench.sql("DELETE FROM o WHERE b = 7")
    bench.sql("INSERT INTO o VALUES ('x,99', 99, '2026-02-02', 'new')")
    spec, facts = found_by(bench, table)
    assert facts["repair"] == {"chunks": 1, "of": 1}
    assert_done(bench.run(spec))
    columns = ("a", "b", "day", "v")
    found = {tuple(row) for row in bench.frame(table).select(*columns).collect()}
    assert found == {*source(bench, *columns)}
    assert found_by(bench, table)[1]["verdict"] == "equal"


def followed(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch, rows: str
) -> tuple[TableSpec, LogBench]:
    """A loaded table `o` of `rows` whose log a test makes; each moment of the source is
    where that log is then."""
    bench.sql("CREATE TABLE o (id int PRIMARY KEY, v text)")
    bench.sql(f"INSERT INTO o {rows}")
    table = bench.table("o")
    assert_done(bench.load(table))
    log = LogBench(bench)
    log.close(*cut(table))

    def take_moment(run: Any, source: Any) -> Moment:
        return Moment(place(log.lsn), source.moment().snapshot)

    monkeypatch.setattr(verify_log, "take_moment", take_moment)
    return table, log


@pytest.mark.long
def test_a_table_that_follows_its_log_goes_on_behind_it(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The log has changes of the same keys that the lake has not: rows are read as they
    are behind those, which are applied over them."""
    bench = lake_bench
    table, log = followed(
        bench, monkeypatch, "SELECT g, 'load' FROM generate_series(1, 500) g"
    )
    bench.sql("UPDATE o SET v = 'lost' WHERE id IN (7, 10, 11)")
    bench.sql("INSERT INTO o VALUES (800, 'lost'), (801, 'lost')")
    bench.sql("DELETE FROM o WHERE id IN (8, 9)")
    spec, facts = found_by(bench, table, stream=NAME, chunk_rows=100)
    assert (facts["missing"], facts["different"], facts["extra"]) == (2, 3, 2)
    bench.sql("UPDATE o SET v = 'one' WHERE id = 10")
    log.segment(table, ("update", 10, "one"))
    applied = log.table(table, tmp_path / "apply")
    assert applied.bring_on(log.stream(), lambda: None).commit is not None
    # what the log has of these keys, and the lake has not
    bench.sql("UPDATE o SET v = 'two' WHERE id IN (7, 10)")
    bench.sql("DELETE FROM o WHERE id IN (11, 800)")
    bench.sql("INSERT INTO o VALUES (8, 'back')")
    log.segment(table, ("update", 7, "x"), ("update", 10, "two"), ("delete", 11, None))
    log.segment(table, ("delete", 800, None), ("insert", 8, "back"))
    log.segment(table, ("update", 7, "two"))
    before = bench.state(table).position
    assert_done(bench.run(spec))
    after = bench.state(table).position
    assert before is not None
    assert after is not None
    assert (after.end, after.epoch_to, after.load) == (
        before.end,
        before.epoch_to,
        before.load,
    )
    while applied.bring_on(log.stream(), lambda: None).commit is not None:
        pass
    assert lake(bench, table) == source(bench)


def two_schemas(bench: LakeBench, *, rows: int) -> TableSpec:
    """`s1.o` and `s2.o` as one lake table, loaded."""
    for number in (1, 2):
        bench.sql(f"CREATE SCHEMA s{number}")
        bench.sql(f"CREATE TABLE s{number}.o (id int PRIMARY KEY, v text)")
        values = f"SELECT g, 'load' FROM generate_series(1, {rows}) g"
        bench.sql(f"INSERT INTO s{number}.o {values}")
        bench.sql(f"ANALYZE s{number}.o")
    bench.sql("CREATE TABLE o (id int PRIMARY KEY, v text)")
    one = bench.table("o")
    table = replace(
        one,
        source_schema="s1",
        columns=(ColumnSpec(SHARD, "s", "", "string"), *one.columns),
        key=(SHARD, *one.key),
        shards=tuple(ShardSpec(f"s{n}", "o", str(n)) for n in (1, 2)),
    )
    assert_done(bench.load(table))
    return table


@pytest.mark.long
def test_one_schema_of_many_is_repaired(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Schemas of one lake table are read in one snapshot; keys that only the lake has
    are looked for in those that they are of."""
    bench = lake_bench
    table = two_schemas(bench, rows=300)
    log = LogBench(bench)
    log.close(*cut(table))
    monkeypatch.setattr(
        verify_log,
        "take_moment",
        lambda _, source: Moment(place(log.lsn), source.moment().snapshot),
    )
    bench.sql("UPDATE s2.o SET v = 'lost' WHERE id IN (7, 8)")
    bench.sql("DELETE FROM s2.o WHERE id = 9")
    bench.sql("INSERT INTO s1.o VALUES (800, 'lost')")
    spec, facts = found_by(bench, table, stream=NAME, chunk_rows=100)
    assert facts["repair"] == {"chunks": 2, "of": 6}
    bench.sql("UPDATE s2.o SET v = 'two' WHERE id = 8")
    bench.sql("UPDATE s1.o SET v = 'two' WHERE id = 8")
    log.change(table, ("update", "2", 8, "two"))
    log.segment(table, ("update", "1", 8, "two"))
    facts = assert_done(bench.run(spec)).facts
    assert (facts["written"], facts["deleted"]) == (3, 1)
    applied = log.table(table, tmp_path / "apply")
    while applied.bring_on(log.stream(), lambda: None).commit is not None:
        pass
    there = bench.sql("SELECT '1', * FROM s1.o UNION ALL SELECT '2', * FROM s2.o")
    assert lake(bench, table, "s", "id", "v") == sorted(there)


def test_the_first_value_of_a_key_is_read_from_its_text(spark: Any) -> None:
    columns = (ColumnSpec("s", "s", "", "string"), ColumnSpec("id", "id", "", "int"))
    table = TableSpec(1, "", "o", "db", "o", "/x", "", columns, ("s", "id"))
    selection = select_columns(dialect_of("mariadb"), columns)
    values = [
        "1",
        "12",
        "",
        "a,b",
        "100%",
        "%2C",
        "%25",
        "x:y",
        "1:2",
        "\u96ea\U0001f600",
    ]
    rows = spark.createDataFrame([(v, 7) for v in values], "c0 string, c1 int")
    keys = rows.select("c0", record_key(table, selection).alias("k"))
    found = keys.select("c0", first_of_key(F.col("k"))).collect()
    assert [value for value, _ in found] == values
    assert all(value == read for value, read in found), found


@pytest.mark.long
def test_a_new_column_is_brought_by_what_knows_its_older_values(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = lake_bench
    table, log = followed(
        bench, monkeypatch, "SELECT g, 'load' FROM generate_series(1, 5) g"
    )
    bench.sql("UPDATE o SET v = 'lost' WHERE id = 2")
    spec, _ = found_by(bench, table, stream=NAME)
    bench.sql("ALTER TABLE o ADD COLUMN n bigint DEFAULT 7")
    bench.sql("UPDATE o SET n = 8 WHERE id = 3")
    n = ColumnSpec("n", "n", "bigint", "bigint", older="7")
    more = replace(table, columns=(*table.columns, n))
    log.segment(more, ("update", 3, "load", "8"))
    report = bench.run(replace(spec, table=more))
    applied = log.table(more, tmp_path / "apply")
    while applied.bring_on(log.stream(), lambda: None).commit is not None:
        pass
    if report.error is not None:
        assert report.error.code == "columns_not_there"
        assert_done(bench.run(with_attempt(replace(spec, table=more), 2)))
    assert lake(bench, more, "id", "v", "n") == source(bench, "id", "v", "n")


@pytest.mark.long
def test_a_row_that_moves_has_the_values_of_its_own_key(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The log does not send a long value that did not change, and what has the old key
    by now is another row."""
    bench = lake_bench
    table, log = followed(bench, monkeypatch, "VALUES (1, 'old'), (3, 'load')")
    bench.sql("UPDATE o SET v = 'lost' WHERE id = 3")
    bench.sql("UPDATE o SET id = 2 WHERE id = 1; INSERT INTO o VALUES (1, 'new')")
    spec, _ = found_by(bench, table, stream=NAME)
    log.segment(table, ("delete", 1, None), ("moved", 2, UNSENT), ("insert", 1, "new"))
    report = bench.run(spec)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "values_on_the_way")
    applied = log.table(table, tmp_path / "apply")
    while applied.bring_on(log.stream(), lambda: None).commit is not None:
        pass
    assert_done(bench.run(with_attempt(spec, 2)))
    assert lake(bench, table) == source(bench)
