"""Error texts of an engine as clients may see them."""

from __future__ import annotations

import pytest

from core.sentences import Sentence
from gateway.faults import (
    DISK_FULL,
    GENERAL,
    RUN_AGAIN,
    TOO_COMPLEX,
    clean,
    in_hive_format,
    waiting_for,
)

MISSING = (
    "org.apache.hive.service.cli.HiveSQLException: Error running query: "
    "[TABLE_OR_VIEW_NOT_FOUND] org.apache.spark.sql.catalyst.ExtendedAnalysisException:"
    " [TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found.; line 1 pos 14;\n"
    "'Project [*]\n+- 'UnresolvedRelation [x], [], false\n\n"
    "\tat org.apache.spark.sql.hive.thriftserver.HiveThriftServerErrors$.running(H.scala:1)"
)


@pytest.mark.parametrize(
    ("text", "state", "shown", "kept"),
    [
        (MISSING, "42P01", "42P01", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("boom SQLSTATE: 22012", "", "22012", "boom"),
        ("boom", "", "HY000", "boom"),
        ("", "", "HY000", "failed"),
        ("cannot read file:/srv/lake/shop/t/a.parquet now", "", "HY000", "now"),
        ("cannot read /srv/lake/shop/t", "", "HY000", "cannot read"),
    ],
)
def test_class_and_state_stay_stack_and_addresses_go(text, state, shown, kept):
    fault = clean(text, sql_state=state, lake="/srv/lake")
    assert fault.sql_state == shown
    assert kept in fault.message
    for secret in ("/srv/lake", "\tat ", "org.apache", "UnresolvedRelation"):
        assert secret not in fault.message


def test_a_very_long_error_is_cut():
    assert len(clean("x" * 100_000).message) <= 4000


def test_a_part_beyond_the_limit_is_said_in_our_words():
    text = (
        "org.apache.hive.service.cli.HiveSQLException: Error retrieving next row set: "
        "org.apache.spark.SparkException: Job aborted due to stage failure: Total size "
        "of serialized results of 1 tasks (5.3 MiB) is bigger than "
        "spark.driver.maxResultSize (2.0 MiB)\n\tat org.apache.spark.X.y(Z.scala:1)"
    )
    fault = clean(text)
    assert fault.sql_state == "54000"
    for said in ("RESULT_TOO_LARGE", "5.3 MiB", "at most 2.0 MiB", "REPARTITION"):
        assert said in fault.message
    for unsaid in ("spark", "stage failure", "\tat "):
        assert unsaid not in fault.message


@pytest.mark.parametrize("name", ["x", "shop.orders", "lake.shop.orders"])
def test_pyhives_dialect_finds_its_words_in_an_absent_tables_error(name):
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    fault = clean(MISSING.replace("`x`", quoted), sql_state="42P01")
    message = in_hive_format(fault).message
    assert message.startswith(fault.message)
    assert message.endswith(f"(SemanticException: Table not found {name})")
    assert in_hive_format(clean("boom")).message == "boom"


def test_the_end_of_the_engines_stack_is_a_sentence() -> None:
    raw = (
        "org.apache.hive.service.cli.HiveSQLException: Error running query: "
        "java.lang.StackOverflowError\n\tat org.apache.X.y(X.scala:1)"
    )
    fault = clean(raw)
    assert fault.sql_state == TOO_COMPLEX
    assert "nested too deeply" in fault.message


def test_a_full_disk_of_the_engine_is_said_in_our_words() -> None:
    raw = (
        "org.apache.hive.service.cli.HiveSQLException: Error running query: "
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
        "stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 "
        "(TID 1) (host executor driver): java.io.IOException: No space left on device\n"
        "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"
    )
    fault = clean(raw)
    assert fault.sql_state == DISK_FULL
    assert "[SCRATCH_FULL]" in fault.message
    assert "stage" not in fault.message


def test_files_that_were_removed_ask_to_run_it_again() -> None:
    raw = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
        "stage 1.0 failed 1 times: java.io.FileNotFoundException: {}\n"
        "\tat org.apache.hadoop.fs.RawLocalFileSystem.getFileStatus(X.java:1)"
    )
    gone = "File file:/srv/lake/shop/orders/a.parquet does not exist"
    fault = clean(raw.format(gone), lake="/srv/lake")
    assert fault.sql_state == RUN_AGAIN
    assert "[FILES_REMOVED]" in fault.message
    of_the_engine = "/srv/engine/blockmgr-1/0c/temp (No such file or directory)"
    assert clean(raw.format(of_the_engine), lake="/srv/lake").sql_state == GENERAL


@pytest.mark.parametrize(
    "text",
    [
        "waits for a connection to shop: statements of yours have 3 of 4, those of"
        " others 1",
        "waits to be planned: 2 other statements of this user are being planned, and so"
        " many may be at once",
    ],
)
def test_why_a_statement_waits_in_the_engine_is_a_sentence(text: str) -> None:
    found = waiting_for(text)
    assert found == text
    assert isinstance(found, Sentence)
    assert found.parameters
    assert waiting_for(f"of a later engine: {text}") == f"of a later engine: {text}"
