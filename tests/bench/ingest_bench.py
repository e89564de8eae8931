"""What ingest costs: a load against raw Spark JDBC → Parquet, an upsert against a
plain Hudi write with the same options, and one-row commits. Ratios inside one run
(A B B A, both warm). Run alone: `python -m tests.bench.ingest_bench FILE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.spark.lake_bench import LakeBench, assert_done

ROWS = int(os.environ.get("SLUICE_BENCH_ROWS", "1000000"))
UPSERTS = 20_000
PAIRS = int(os.environ.get("SLUICE_BENCH_PAIRS", "2"))
WARM_UPS = 4
COMMITS = 7
CREATE = """CREATE TABLE {name} (id bigint PRIMARY KEY, name text NOT NULL,
  amount numeric(12,2), note varchar(60), day date,
  at timestamptz NOT NULL DEFAULT now())"""
FILL = """INSERT INTO {name} SELECT g, 'customer ' || g, g / 7.0, md5(g::text),
  date '2020-01-01' + (g % 1000)::int, now() - interval '1 day'
  FROM generate_series(1, {rows}) g"""


class IngestBench:
    """One source, one lake; every measurement returns seconds."""

    def __init__(self, bench: LakeBench, root: Path) -> None:
        self.bench = bench
        self.root = root
        bench.sql(CREATE.format(name="big"))
        bench.sql(FILL.format(name="big", rows=ROWS))
        bench.sql("VACUUM ANALYZE big")
        self.reads = bench.source.max_parallel_reads

    def load(self) -> float:
        """A whole load: chunks, staging, one bulk_insert commit."""
        table = self.bench.table("big", buckets=4, estimated_rows=ROWS, cursor="at")
        return seconds_of(lambda: assert_done(self.bench.load(table)))

    def raw(self) -> float:
        """Spark's own JDBC reader with as many partitions, written as Parquet."""
        source = self.bench.source
        reader = self.bench.spark.read.format("jdbc").options(
            url=f"jdbc:postgresql://{source.host}:{source.port}/{source.database}",
            driver="org.postgresql.Driver",
            user=source.username,
            password=self.bench.password,
            dbtable="big",
            fetchsize="10000",
            partitionColumn="id",
            lowerBound="1",
            upperBound=str(ROWS),
            numPartitions=str(self.reads),
        )
        target = str(self.root / "raw")
        return seconds_of(lambda: reader.load().write.mode("overwrite").parquet(target))


class SyncBench:
    """Changes of one loaded table, applied by us and by a plain Hudi write.

    Of ours only the commit counts, as of the plain one: reading is timed by `load`.
    """

    def __init__(self, bench: IngestBench) -> None:
        from ingest.driver.apply import apply

        self.bench = bench.bench
        self.root = bench.root
        table = self.bench.table("big", buckets=4, estimated_rows=ROWS, cursor="at")
        self.table = replace(table, path=table.path + "_syncs")
        self.low = assert_done(self.bench.load(self.table)).facts["bound"]
        self.spent: list[float] = []
        real = apply.commit_rows

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.monotonic()
            found = real(*arguments, **named)
            self.spent.append(time.monotonic() - start)
            return found

        apply.commit_rows = timed  # type: ignore[assignment]

    def ours(self, rows: int = UPSERTS) -> float:
        self.bench.sql(
            f"UPDATE big SET name = 'changed', at = now() WHERE id <= {rows}"
        )
        report = self.bench.sync(self.table, self.low, compact_after=1000)
        self.low = assert_done(report).facts["position"]["to"]
        return self.spent[-1]

    def one_row(self) -> float:
        return self.ours(1)

    def plain(self) -> float:
        data = self.bench.frame(self.table).where(f"id <= {UPSERTS}")
        names = [c for c in data.columns if not c.startswith("_hoodie")]
        source = str(self.root / "batch")
        data.select(*names).write.mode("overwrite").parquet(source)
        rows = self.bench.spark.read.parquet(source)
        writer = rows.write.format("hudi").options(**self._options()).mode("append")
        return seconds_of(lambda: writer.save(self.table.path))

    def _options(self) -> dict[str, str]:
        from ingest.lake.hudi.identity import identity_for
        from ingest.lake.hudi.options import (
            CommitPosition,
            WriterFence,
            encode_position,
            write_options,
        )

        spec = self.bench.sync_spec(self.table, None)
        identity = identity_for(self.table)
        epoch = self.bench.state(self.table).position.epoch_to  # type: ignore[union-attr]
        position = CommitPosition(
            1, "", self.low, epoch, epoch, spec.job_id, 1, identity
        )
        return write_options(
            identity,
            name=self.table.name,
            fence=WriterFence(spec.fence.path, 1),
            operation="upsert",
            position=encode_position(position),
        )


def measure(bench: IngestBench) -> dict[str, float]:
    # the JVM compiles the hot loops of both in the first syncs
    for _ in range(WARM_UPS):
        bench.load(), bench.raw()
    load, raw = abba(bench.load, bench.raw)
    syncs = SyncBench(bench)
    for _ in range(WARM_UPS):
        syncs.ours(), syncs.plain(), syncs.one_row()
    upsert, baseline = abba(syncs.ours, syncs.plain)
    singles = [syncs.one_row() for _ in range(COMMITS)]
    return {
        "rows": ROWS,
        "snapshot_seconds": statistics.median(load),
        "raw_parquet_seconds": statistics.median(raw),
        "snapshot_ratio": sum(raw) / sum(load),
        "snapshot_ratio_goal": 0.5,
        "upsert_seconds": statistics.median(upsert),
        "plain_upsert_seconds": statistics.median(baseline),
        "upsert_ratio": sum(baseline) / sum(upsert),
        "upsert_ratio_goal": 0.95,
        "one_row_commit_seconds": statistics.median(singles),
    }


def abba(
    one: Callable[[], float], two: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Both slow down alike when the machine does."""
    ones, twos = [], []
    for _ in range(PAIRS):
        ones.append(one())
        twos += [two(), two()]
        ones.append(one())
    return ones, twos


def seconds_of(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


@contextlib.contextmanager
def started(master: str = "local[4]") -> Iterator[tuple[LakeBench, Path]]:
    """Spark, a PostgreSQL source and a lake; all of it goes at the end."""
    from config.embedded import EmbeddedPostgres
    from config.toolchain.javac import ensure_sluice_jar
    from config.toolchain.paths import spark_jars
    from ingest.driver.session import SessionSpec, start_session

    ensure_sluice_jar(lambda text: None)
    root = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    server = EmbeddedPostgres(root / "home", "source", durable=False)
    try:
        address = server.start()
        jars = [str(path) for path in spark_jars()]
        spark = start_session(SessionSpec(jars, str(root / "spark"), master))
        bench = LakeBench(spark, address.url("postgres"), root)
        try:
            yield bench, root
        finally:
            bench.close()
            spark.stop()
    finally:
        server.destroy()
        shutil.rmtree(root, ignore_errors=True)


def run() -> dict[str, float]:
    with started() as (bench, root):
        return measure(IngestBench(bench, root))


if __name__ == "__main__":  # stdout belongs to the JVM
    target = Path(sys.argv[1])
    target.write_text(json.dumps(run(), indent=2) + "\n")
