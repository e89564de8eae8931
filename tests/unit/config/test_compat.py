"""`make compat` lets nothing fail without a reason, and no reason outlive its failure."""

from __future__ import annotations

from tests.compat.__main__ import Check, checks_in, judge, row_of, transports_of


def test_only_failures_with_a_reason_pass_and_only_while_they_fail() -> None:
    checks = [Check("dbt", "models", "no"), Check("pyhive", "reads")]
    assert judge(checks, {"dbt.models": "read-only"}) == []
    assert judge(checks, {}) == ["dbt.models fails: no"]
    known = {"dbt.models": "read-only", "pyhive.reads": "once", "other.x": "not run"}
    assert judge(checks, known) == ["pyhive.reads works now"]


def test_checks_are_read_between_a_clients_other_words() -> None:
    said = 'hello\n{"check": "reads", "error": ""}\n{"other": 1}\n'
    assert list(checks_in("pyhive", said)) == [Check("pyhive", "reads")]


def test_a_client_has_a_column_for_each_transport_that_it_speaks() -> None:
    binary, http = Check("impyla", "reads"), Check("impyla", "reads", "no", "http")
    assert judge([binary, http], {"impyla.http.reads": "why"}) == []
    assert row_of("impyla", [binary, http]).split()[1:] == [
        "1",
        "of",
        "1",
        "0",
        "of",
        "1",
    ]
    assert row_of("dbt_spark", [binary]).split()[-1] == "-"
    assert transports_of("dbt_spark") == ("binary",)
    assert transports_of("hive_jdbc_2") == ("binary", "http")
