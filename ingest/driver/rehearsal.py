"""A driver's session that does a little of everything, to note which classes its JVM
loads, for the archive that `config.toolchain.class_lists` writes.

    python -m ingest.driver.rehearsal --jars a.jar:b.jar --classes FILE --lake FOLDER

It leaves a table `t` in the folder. It must not know who asks for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from pyspark import SparkContext
from pyspark.sql import SparkSession

from core.class_archive import rehearsal_of
from ingest.contract.java import driver_options
from ingest.driver.session import SessionSpec, start_session

END_SECONDS = 300
_WORK = (
    "CREATE TABLE t (id INT, v STRING) USING hudi LOCATION '{lake}/t'"
    " TBLPROPERTIES (type = 'mor', primaryKey = 'id')",
    "INSERT INTO t SELECT CAST(id AS INT) AS id, CAST(id AS STRING) AS v"
    " FROM range(100)",
    "UPDATE t SET v = 'x' WHERE id < 10",
    "SELECT v, count(*) FROM t GROUP BY v ORDER BY 2 LIMIT 5",
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = rehearsal_of(arguments, about=__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="sluice-rehearsal-") as scratch:
        options = f'{driver_options(scratch)} "{given.java_option}"'
        spark = start_session(
            SessionSpec(
                jars=given.jars,
                scratch=scratch,
                extra={"spark.driver.extraJavaOptions": options},
            )
        )
        for statement in _WORK:
            spark.sql(statement.format(lake=given.lake)).collect()
        _end(spark)
    return 0


def _end(spark: SparkSession) -> None:
    """The JVM ends with its standard input; its list is whole when it has ended."""
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()
    java.wait(END_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
