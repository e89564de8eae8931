"""The load of a MariaDB table that is followed by its log: chunks of many moments, and
all that came since the cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.applying import ApplyTable, ApplyWork
from ingest.contract.job import LogLoad, RepairWork, SnapshotWork
from ingest.contract.segments import Control
from ingest.contract.source_positions import order_of
from ingest.contract.table import TableSpec
from ingest.driver.apply.log_apply import LogTable, spec_of
from ingest.driver.apply.log_read import Stream
from ingest.driver.capture import reading
from ingest.driver.capture.chunking import SHORT
from ingest.driver.table_services import verify
from ingest.lake.chain import ChainIndex, begin_stream, stream_folder, take_over
from ingest.lake.segment_files import SegmentBuilder
from ingest.sources.mariadb.reader import open_source
from ingest.sources.port import LogNames, LogReader, SourceAccess
from ingest.sources.registry import open_log_reader
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.spark.lake_bench import assert_done
from tests.spark.mariadb_bench import MariadbBench

STREAM = "source1"


@pytest.fixture
def bench(
    spark: Any, mariadb_server: MariaDbServer, tmp_path: Path
) -> Iterator[MariadbBench]:
    made = MariadbBench(spark, mariadb_server, tmp_path)
    yield made
    made.link.close()


class Followed:
    """A table, its stream, and the reader of its source's log."""

    def __init__(self, bench: MariadbBench, log: LogReader, table: TableSpec) -> None:
        self.bench, self.log, self.table = bench, log, table
        folder = stream_folder(bench.lake, STREAM)
        begin_stream(folder, above=1000)
        chain = take_over(
            folder, stream=STREAM, writer="t", server=log.server, begin=log.begin
        )
        self.builder = SegmentBuilder(chain)
        log.start(chain.last.end)

    def segment(self, *controls: Control) -> None:
        """Has all that the log has by now."""
        with open_source(self.access) as source:
            here = source.here()
        while order_of(self.log.position, here) == "before":
            self.log.read(0.2)
        for rows in self.log.take():
            self.builder.add(rows.table_id, rows.schema_version, rows.batch)
        end = self.builder.close(end=self.log.position, controls=controls).end
        self.log.acknowledge(end)

    def apply(self, scratch: Path) -> LogTable:
        stream = Stream(ChainIndex(stream_folder(self.bench.lake, STREAM), STREAM))
        while stream.refresh():
            pass
        fence = self.bench.spec("sync", self.table).fence
        work = ApplyWork(
            "session",
            self.bench.source,
            STREAM,
            self.bench.lake,
            1,
            (ApplyTable(self.table, fence),),
        )
        applied = LogTable(self.bench.spark, spec_of(work, work.tables[0]), scratch)
        applied.bring_on(stream, lambda: None)
        assert applied.is_live(stream)
        return applied

    @property
    def access(self) -> SourceAccess:
        return mariadb_at(self.bench.server)


@pytest.fixture
def followed(bench: MariadbBench) -> Iterator[Followed]:
    bench.sql("CREATE TABLE o (id int PRIMARY KEY, v varchar(40))")
    bench.sql("INSERT INTO o SELECT seq, 'load' FROM seq_1_to_400")
    bench.sql("ANALYZE TABLE o")
    table = bench.table("o", estimated_rows=400)
    with open_log_reader(
        mariadb_at(bench.server),
        LogNames("sluice_t", ""),
        [table],
        after=lambda: None,
        wait=print,
    ) as log:
        yield Followed(bench, log, table)


def load_with(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, ...]
) -> Any:
    """Facts of the load. changes: statements behind the cut, before each chunk."""
    bench, table = followed.bench, followed.table
    cut = Control("cut", table.table_id, load="a")
    followed.segment(Control("added", table.table_id), cut)
    waiting = list(changes)
    read = reading.read_statement

    def between(*given: Any, **named: Any) -> Any:
        for statement in waiting.pop(0) if waiting else ():
            bench.sql(statement)
        return read(*given, **named)

    monkeypatch.setattr(reading, "read_statement", between)
    # chunks of the same table: few are not staged
    rows = 50 if table.estimated_rows else 100
    work = SnapshotWork(rows, log=LogLoad(STREAM, "a"))
    return assert_done(bench.run(bench.spec("snapshot", table, snapshot=work))).facts


@pytest.mark.parametrize("is_short", [True, False])
def test_what_changes_while_chunks_are_read_ends_right(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_short: bool
) -> None:
    if is_short:
        followed.table = replace(followed.table, estimated_rows=0)
    bench, table = followed.bench, followed.table
    facts = load_with(
        followed,
        monkeypatch,
        ("UPDATE o SET v = 'new' WHERE id = 390", "DELETE FROM o WHERE id = 380"),
        (
            "UPDATE o SET id = 1001 WHERE id = 5",  # behind what was read, out of it
            "UPDATE o SET id = 6000 WHERE id = 395",
            "DELETE FROM o WHERE id = 7",
            "INSERT INTO o VALUES (700, 'late'), (-1, 'early')",
        ),
        (
            "UPDATE o SET id = 5 WHERE id = 1001",  # and back
            "UPDATE o SET id = 1002, v = 'one' WHERE id = 1",
            "UPDATE o SET id = 1 WHERE id = 2",
            "UPDATE o SET id = 2 WHERE id = 1002",
            "DELETE FROM o WHERE id = 700",
            "REPLACE INTO o VALUES (7, 'again')",
        ),
    )
    assert facts["consistency"] == "per_chunk"
    assert facts["chunks"] <= SHORT if is_short else facts["chunks"] > SHORT
    bench.sql("UPDATE o SET v = 'last' WHERE id = 390")
    finished = Control("finished", table.table_id, at=facts["bound"])
    followed.segment(finished)
    followed.apply(tmp_path / "apply")
    wanted = sorted(tuple(map(str, row)) for row in bench.sql("SELECT * FROM o"))
    found = [tuple(map(str, row)) for row in bench.rows(table, "id", "v")]
    assert sorted(found) == wanted


def test_a_truncation_while_chunks_are_read_ends_right(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench, table = followed.bench, followed.table
    facts = load_with(
        followed, monkeypatch, (), (), ("TRUNCATE o", "INSERT INTO o VALUES (9, 'x')")
    )
    followed.segment(Control("finished", table.table_id, at=facts["bound"]))
    followed.apply(tmp_path / "apply")
    assert [tuple(map(str, r)) for r in bench.rows(table, "id", "v")] == [("9", "x")]


@pytest.mark.long
def test_what_changes_while_it_is_verified_is_none_and_the_rest_is_repaired(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench, table = followed.bench, followed.table
    facts = load_with(followed, monkeypatch)
    followed.segment(Control("finished", table.table_id, at=facts["bound"]))
    followed.apply(tmp_path / "apply")
    unlogged = "SET STATEMENT sql_log_bin = 0 FOR"
    bench.sql(f"{unlogged} UPDATE o SET v = 'odd' WHERE id = 9")
    bench.sql(f"{unlogged} DELETE FROM o WHERE id IN (10, 11)")
    bench.sql(f"{unlogged} INSERT INTO o VALUES (900, 'odd'), (901, 'odd')")
    read, wait = verify.read_until, [("DELETE", 3), ("UPDATE", 4)]

    def behind_all(*given: Any) -> str:
        """After the chunks; the lake has what they cannot show."""
        for verb, key in wait:
            what = "DELETE FROM o" if verb == "DELETE" else "UPDATE o SET v = 'new'"
            bench.sql(f"{what} WHERE id = {key}")
        at = read(*given)
        followed.segment()
        followed.apply(tmp_path / "apply")
        return at

    monkeypatch.setattr(verify, "read_until", behind_all)
    spec = bench.verify_spec(table, stream=STREAM, chunk_rows=100)
    report = assert_done(bench.run(spec))
    assert report.facts["verdict"] == "different"
    assert report.facts["keys"]["different"] == ["9"]
    counts = {"different": 1, "missing": 2, "extra": 2, "pending": 2}
    assert {name: report.facts.get(name, 0) for name in counts} == counts, report.facts
    # logged, and not in the lake as the repair begins
    bench.sql("UPDATE o SET v = 'log' WHERE id = 9")
    bench.sql("INSERT INTO o VALUES (10, 'log')")
    bench.sql("DELETE FROM o WHERE id = 901")
    work = RepairWork("repair", verification=spec.job_id, stream=STREAM)
    repaired = assert_done(bench.run(bench.spec("repair", table, repair=work))).facts
    assert (repaired["written"], repaired["deleted"]) == (3, 1)
    followed.segment()
    followed.apply(tmp_path / "apply")
    _as_at_source(bench, table)


def test_a_synced_table_goes_over_and_back_without_being_read_again(
    bench: MariadbBench, tmp_path: Path
) -> None:
    bench.sql("CREATE TABLE o (id int PRIMARY KEY, v varchar(9), at datetime(6))")
    bench.sql(
        "INSERT INTO o SELECT seq, 'old', now(6) - INTERVAL 1 DAY FROM seq_1_to_9"
    )
    table = bench.table("o", cursor="at")
    assert_done(bench.load(table))
    logged = replace(table, cursor=None)
    names = LogNames("sluice_t", "")
    with open_log_reader(
        mariadb_at(bench.server), names, [logged], after=lambda: None, wait=print
    ) as log:
        followed = Followed(bench, log, logged)
        bench.sql("UPDATE o SET v = 'new', at = now(6) WHERE id = 1")
        bench.sql("INSERT INTO o VALUES (20, 'late', now(6))")
        cut = Control("cut", logged.table_id, load="a")
        followed.segment(Control("added", logged.table_id), cut)
        work = SnapshotWork(log=LogLoad(STREAM, "a"), behind="at")
        done = assert_done(bench.run(bench.spec("resync", logged, snapshot=work)))
        assert done.facts["rows"] == 2
        bench.sql("DELETE FROM o WHERE id = 2")
        bench.sql("UPDATE o SET v = 'log' WHERE id = 3")
        finished = Control("finished", logged.table_id, at=done.facts["bound"])
        followed.segment(finished)
        followed.apply(tmp_path / "apply")
        _as_at_source(bench, table)
        bench.sql("DELETE FROM o WHERE id = 4")
        followed.segment()
        spec = bench.sync_spec(table, None)
        sync = replace(spec.sync, stream=STREAM) if spec.sync else None
        done = assert_done(bench.run(replace(spec, sync=sync)))
    low = done.facts["position"]["to"]
    bench.sql("UPDATE o SET v = 'cursor', at = now(6) WHERE id IN (5, 20)")
    assert_done(bench.sync(table, low))
    _as_at_source(bench, table)


def _as_at_source(bench: MariadbBench, table: TableSpec) -> None:
    wanted = sorted(tuple(map(str, row)) for row in bench.sql("SELECT id, v FROM o"))
    found = sorted(tuple(map(str, row)) for row in bench.rows(table, "id", "v"))
    assert found == wanted
