"""What it costs to hold a table against its source, and whether it finds everything.

Per kind of source: verify against reading the same columns by Spark's JDBC into
nothing (A B B A, both warm), and the lake read into nothing beside it. Then single
bytes are changed behind the lake's back, and all is measured once more.
Run alone: `python -m tests.bench.verify_bench FILE`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.ingest_bench import CREATE, FILL, abba, seconds_of, started
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.mariadb_bench import MariadbBench

ROWS = int(os.environ.get("SLUICE_BENCH_ROWS", "1000000"))
PLANTED = 20
WARM_UPS = 4
FILL_MARIADB = f"""INSERT INTO big SELECT seq, concat('customer ', seq), seq / 7.0,
  md5(seq), '2020-01-01' + INTERVAL seq % 1000 DAY, now() - INTERVAL 1 DAY
  FROM seq_1_to_{ROWS}"""


def measure(bench: LakeBench, kind: str) -> dict[str, Any]:
    table = bench.table("big", buckets=4, estimated_rows=ROWS)
    assert_done(bench.load(table))

    def verify() -> float:
        return seconds_of(lambda: assert_done(bench.verify(table)))

    def read() -> float:
        return seconds_of(lambda: _read(bench))

    def read_lake() -> float:
        return seconds_of(lambda: _into_nothing(bench.frame(table)))

    for _ in range(WARM_UPS):
        verify(), read(), read_lake()
    ours, plain = abba(verify, read)
    lake = [read_lake() for _ in plain]
    keys = sorted(random.Random(7).sample(range(1, ROWS + 1), PLANTED))
    for number, key in enumerate(keys):
        bench.sql(_change(kind, number, key))
    started_at = time.monotonic()
    facts = assert_done(bench.verify(table)).facts
    listing = time.monotonic() - started_at
    found = sorted(int(key) for key in facts["keys"]["different"])
    return {
        f"{kind}_verify_seconds": statistics.median(ours),
        f"{kind}_read_seconds": statistics.median(plain),
        f"{kind}_lake_read_seconds": statistics.median(lake),
        f"{kind}_cost": sum(ours) / sum(plain),
        f"{kind}_cost_of_both_reads": sum(ours) / (sum(plain) + sum(lake)),
        f"{kind}_differing_seconds": listing,
        f"{kind}_planted": PLANTED,
        f"{kind}_found": len(set(found) & set(keys)),
        f"{kind}_found_wrongly": len(set(found) - set(keys)),
    }


def _read(bench: LakeBench) -> None:
    source, is_mariadb = bench.source, bench.source.kind == "mariadb"
    place = f"{source.host}:{source.port}"
    url = (
        f"jdbc:mysql://{place}/shop?permitMysqlScheme=true"
        if is_mariadb
        else f"jdbc:postgresql://{place}/{source.database}"
    )
    driver = "org.mariadb.jdbc.Driver" if is_mariadb else "org.postgresql.Driver"
    reader = bench.spark.read.format("jdbc").options(
        url=url,
        driver=driver,
        user=source.username,
        password=bench.password,
        dbtable="big",
        fetchsize="10000",
        partitionColumn="id",
        lowerBound="1",
        upperBound=str(ROWS),
        numPartitions=str(source.max_parallel_reads),
    )
    _into_nothing(reader.load())


def _into_nothing(rows: Any) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _change(kind: str, number: int, key: int) -> str:
    """One byte or the smallest step, of one value; the cursor stays as it is."""
    day = "day + 1" if kind == "postgresql" else "day + INTERVAL 1 DAY"
    changes = (
        "name = concat(name, '.')",
        "note = concat(substr(note, 1, 31), '~')",
        "amount = amount + 0.01",
        f"day = {day}",
    )
    keep = "" if kind == "postgresql" else ", at = at"
    return f"UPDATE big SET {changes[number % len(changes)]}{keep} WHERE id = {key}"


def run() -> dict[str, Any]:
    with started() as (bench, root):
        bench.sql(CREATE.format(name="big"))
        bench.sql(FILL.format(name="big", rows=ROWS))
        bench.sql("VACUUM ANALYZE big")
        found = {"rows": ROWS, "cost_goal": 3, **measure(bench, "postgresql")}
        server = MariaDbServer()
        try:
            server.start()
            other = MariadbBench(bench.spark, server, root / "mariadb")
            other.sql(CREATE.format(name="big").replace("timestamptz", "timestamp"))
            other.sql(FILL_MARIADB)
            other.sql("ANALYZE TABLE big")
            found |= measure(other, "mariadb")
            other.close()
        finally:
            server.destroy()
        return found


if __name__ == "__main__":  # stdout belongs to the JVM
    target = Path(sys.argv[1])
    target.write_text(json.dumps(run(), indent=2) + "\n")
