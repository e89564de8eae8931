"""What users read of an engine's error."""

from __future__ import annotations

import pytest

from gateway.faults import MAX_TEXT, scrub_message

HIVE = "org.apache.hive.service.cli.HiveSQLException: Error running query: "
ANALYSIS = "org.apache.spark.sql.AnalysisException: "
TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage "
    "2762.0 failed 1 times, most recent failure: Lost task 1.0 in stage 2762.0 (TID "
    "2324) (localhost executor driver): "
)
CASES = [
    ("", ""),
    ("plain", "plain"),
    ("Error running query: [A_B] Function x is shut.", "[A_B] Function x is shut."),
    (
        f"{HIVE}[A.B] {ANALYSIS}[A.B] No column `x`.; line 1 pos 7;\n'Project ['x]\n"
        "+- SubqueryAlias t\n\tat org.apache.X.y(X.scala:1)",
        "[A.B] No column `x`.; line 1 pos 7",
    ),
    (
        f"{HIVE}[T] {ANALYSIS}[T] The table `a`.`b` cannot be found.\n"
        "If you did not qualify the name.\nTo tolerate.; line 1 pos 14;\n'Project [*]",
        "[T] The table `a`.`b` cannot be found.\nIf you did not qualify the name.\n"
        "To tolerate.; line 1 pos 14",
    ),
    (
        f"{HIVE}[P] org.apache.spark.sql.catalyst.parser.ParseException: \n[P] Syntax "
        "error.(line 1, pos 3)\n\n== SQL ==\nselect ::\n---^^^\n\n\tat org.A.b(C.java:1)",
        "[P] Syntax error.(line 1, pos 3)\n\n== SQL ==\nselect ::\n---^^^",
    ),
    (
        f"{HIVE}org.apache.spark.SparkException: Job aborted: File "
        "file:/srv/lake/x/y.parquet does not exist\nCaused by: z",
        "Job aborted: File (storage) does not exist",
    ),
    (
        f"{HIVE}{TASK}The source shop has the table locked (55P03).\n"
        "Driver stacktrace:\n\tat org.apache.X.y(X.scala:1)",
        "The source shop has the table locked (55P03).",
    ),
    (
        f"{HIVE}{TASK}org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] "
        "Division by zero.\n\tat org.apache.X.y(X.scala:1)",
        "[DIVIDE_BY_ZERO] Division by zero.",
    ),
    ("cannot read /srv/lake/shop/orders/.hoodie now", "cannot read (storage) now"),
    ("s3a://bucket/a/b, hdfs://n:8020/c", "(storage), (storage)"),
    ("1/2 and a/b stay, 12:30 too", "1/2 and a/b stay, 12:30 too"),
]


@pytest.mark.parametrize(("raw", "shown"), CASES)
def test_scrubbed(raw: str, shown: str) -> None:
    assert scrub_message(raw) == shown
    assert scrub_message(shown) == shown


def test_the_text_is_bounded() -> None:
    assert len(scrub_message("x" * 100_000)) == MAX_TEXT
