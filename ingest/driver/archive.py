"""Writes the archive of classes: a session does a little of everything, and its JVM
keeps what it has loaded when it ends.

    python -m ingest.driver.archive --jars a.jar:b.jar

Nothing needs it: a start without takes longer. It must not know who starts JVMs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from core.class_archive import class_archive
from ingest.contract.java import driver_options
from ingest.driver.session import SessionSpec, start_session

END_SECONDS = 300
_WORK = (
    "CREATE TABLE t (id INT, v STRING) USING hudi LOCATION '{folder}/t'"
    " TBLPROPERTIES (type = 'mor', primaryKey = 'id')",
    "INSERT INTO t SELECT CAST(id AS INT) AS id, CAST(id AS STRING) AS v"
    " FROM range(100)",
    "UPDATE t SET v = 'x' WHERE id < 10",
    "SELECT v, count(*) FROM t GROUP BY v ORDER BY 2 LIMIT 5",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jars", required=True)
    jars = parser.parse_args(arguments).jars.split(os.pathsep)
    target = class_archive(jars)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".jsa-") as folder:
        scratch = Path(folder) / target.name
        _write(jars, scratch)
        scratch.replace(target)
    for old in target.parent.glob("sluice-*.jsa"):
        if old != target:
            old.unlink(missing_ok=True)
    return 0


def _write(jars: list[str], target: Path) -> None:
    folder = str(target.parent)
    keep = f'{driver_options(folder)} "-XX:ArchiveClassesAtExit={target}"'
    extra = {"spark.driver.extraJavaOptions": f"{keep} -Xlog:cds*=off"}
    spark = start_session(SessionSpec(jars=jars, scratch=folder, extra=extra))
    for statement in _WORK:
        spark.sql(statement.format(folder=folder)).collect()
    _end(spark)


def _end(spark: SparkSession) -> None:
    """The JVM ends with its standard input, and writes the archive while it does."""
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()
    java.wait(END_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
