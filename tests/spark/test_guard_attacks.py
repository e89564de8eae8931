"""Attacks on the engine through its real Thrift port, beside what must keep working.

The oracle is a canary: rows, columns and directories that the attacker may not know
carry marks; a mark in any reply, error, metadata or log is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gateway.engines.port import EngineRefused, EngineUnavailable
from gateway.faults import scrub_message
from tests.spark.conftest import Lake
from tests.spark.engine_bench import Client, EngineBench, Outcome

HERE = Path(__file__).parent
MARKS = ("CANARYROW", "canary_col", "canary_path", "lake_canary_root", "CANARYSECRET")
SELECT = ("shop.orders", "shop.customers")
DISCOVER = ("shop.discoverable",)
ABSENT_TABLE, ABSENT_SCHEMA, NO_PRIVILEGE = "42P01", "42704", "42501"


def corpus(name: str) -> list[str]:
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


ATTACKS = corpus("guard_attacks.txt")
ALLOWED = corpus("guard_allowed.txt")


@pytest.fixture(scope="module")
def ann(bench: EngineBench) -> Iterator[Client]:
    """A user with two readable tables and one that he may only discover."""
    bench.policy("ann", select=SELECT, discover=DISCOVER)
    client = bench.connect("ann")
    yield client
    client.close()


@pytest.fixture(scope="module")
def admin(bench: EngineBench) -> Iterator[Client]:
    bench.policy("boss", is_admin=True)
    client = bench.connect("boss")
    yield client
    client.close()


def filled(line: str, lake: Lake, out: Path) -> str:
    statement = line.removeprefix("~ ").replace("\\n", "\n")
    for key, value in (
        ("{lake}", lake.root),
        ("{hidden}", lake.place("vault.secrets")),
        ("{out}", out),
    ):
        statement = statement.replace(key, str(value))
    return statement


def shown(outcome: Outcome, statement: str = "") -> str:
    """What the gateway would show of it, without the echo of the statement itself."""
    error = scrub_message(outcome.error).replace(statement, "")
    return Outcome(outcome.rows, outcome.columns, error, outcome.sql_state).visible_text


def marks_in(text: str) -> list[str]:
    return [mark for mark in MARKS if mark in text]


def test_the_corpus_is_as_large_as_promised() -> None:
    text = (HERE / "guard_attacks.txt").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    sizes = {part.splitlines()[0]: len(part.split("\n")) - 2 for part in sections}
    assert min(sizes.values()) >= 3, sizes
    assert len(ATTACKS) >= 100
    assert len(ALLOWED) >= 40


@pytest.mark.parametrize("line", ATTACKS)
def test_attack_by_a_restricted_user(
    line: str, ann: Client, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.getbasetemp() / "attack_out"
    statement = filled(line, lake, out)
    outcome = ann.run(statement)
    if not line.startswith("~ "):
        assert outcome.is_refused, f"went through: {outcome.rows[:3]}"
    assert not marks_in(shown(outcome, statement)), shown(outcome)[:500]
    assert not out.exists(), "something was written"


@pytest.mark.parametrize("line", ALLOWED)
def test_allowed_for_a_restricted_user(line: str, ann: Client) -> None:
    outcome = ann.run(line)
    assert not outcome.is_refused, f"{outcome.sql_state} {outcome.error[:600]}"
    assert not marks_in(shown(outcome))


READS = ("vault", "shop.salaries", "salaries from shop", "shop.discoverable")
NEVER = [
    line
    for line in ATTACKS
    if not line.startswith("~ ") and not any(name in line.lower() for name in READS)
]


@pytest.mark.parametrize("line", NEVER[::4])
def test_administrators_may_not_do_it_either(
    line: str, admin: Client, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.getbasetemp() / "attack_out"
    assert admin.run(filled(line, lake, out)).is_refused
    assert not out.exists()


def test_variables_are_plain_text(ann: Client) -> None:
    for text in ("${env:PATH}", "${system:user.dir}", "${spark.driver.host}"):
        assert ann.rows(f"select '{text}'") == [(text,)]


def test_after_all_attacks_nothing_changed(ann: Client, admin: Client) -> None:
    assert ann.rows("select count(*), sum(id) from shop.orders") == [(20, 210)]
    assert admin.rows("select count(*) from vault.secrets") == [(3,)]
    assert ann.rows("show databases") == [("default",), ("shop",)]
    tables = ann.rows("show tables in shop")
    assert [row[1] for row in tables] == ["customers", "discoverable", "orders"]


ABSENT_PAIRS = [
    ("select * from vault.secrets", "select * from vault.nothing"),
    ("select * from shop.salaries", "select * from shop.nothing1"),
    ("select * from lake.shop.salaries", "select * from lake.shop.nothing1"),
    ("describe shop.salaries", "describe shop.nothing1"),
    ("show columns in shop.salaries", "show columns in shop.nothing1"),
    ("show tables in vault", "show tables in nulla"),
    ("use vault", "use nulla"),
    ("describe database vault", "describe database nulla"),
    ("select x from shop.salaries", "select x from shop.nothing1"),
    ("explain select * from shop.salaries", "explain select * from shop.nothing1"),
]


@pytest.mark.parametrize(("hidden", "absent"), ABSENT_PAIRS)
def test_hidden_answers_as_absent(hidden: str, absent: str, ann: Client) -> None:
    first, second = ann.run(hidden), ann.run(absent)
    rename = {"secrets": "nothing", "salaries": "nothing1", "vault": "nulla"}
    text = scrub_message(first.error)
    expected = scrub_message(second.error)
    for real, name in rename.items():
        if name in absent:
            text = text.replace(real, name)
    assert first.sql_state == second.sql_state
    assert first.sql_state in {ABSENT_TABLE, ABSENT_SCHEMA}
    assert text == expected


def test_a_visible_table_without_select_names_the_privilege(ann: Client) -> None:
    outcome = ann.run("select * from shop.discoverable")
    assert outcome.sql_state == NO_PRIVILEGE
    assert "select on shop.discoverable" in outcome.error


def test_a_source_that_is_not_granted_is_refused_with_the_lake_name(
    ann: Client,
) -> None:
    for name in ("erp.public.orders", "`erp`.`public`.`orders`"):
        outcome = ann.run(f"select * from {name}")
        assert outcome.sql_state == NO_PRIVILEGE
        assert "Use lake.shop.orders" in outcome.error
    hidden = ann.run("select * from erp.public.secrets")
    assert hidden.sql_state == ABSENT_TABLE
    assert "vault" not in scrub_message(hidden.error)


def test_the_user_is_the_principal(ann: Client) -> None:
    assert ann.rows("select current_user()") == [("ann",)]


def test_administrators_read_everything(admin: Client) -> None:
    assert admin.rows("select count(*) from lake.vault.secrets") == [(3,)]
    assert ("vault",) in admin.rows("show databases")


SESSION_SETTINGS = [
    {"set:hiveconf:spark.sql.variable.substitute": "true"},
    {"set:hiveconf:spark.sql.runSQLOnFiles": "true"},
    {"set:hiveconf:spark.sql.caseSensitive": "true"},
    {"set:hiveconf:spark.sql.catalog.lake": "org.example.Evil"},
    {"set:hiveconf:spark.sql.defaultCatalog": "evil"},
]


@pytest.mark.parametrize("settings", SESSION_SETTINGS)
def test_a_session_with_changed_locks_runs_nothing(
    settings: dict[str, str], ann: Client, bench: EngineBench
) -> None:
    """The gateway filters these; the engine does not rely on it."""
    client = bench.connect("ann", configuration=settings)
    assert client.run("select '${env:PATH}'").is_refused
    assert client.run("select 1").sql_state == NO_PRIVILEGE
    client.close()


def test_nobody_can_speak_for_another(ann: Client, bench: EngineBench) -> None:
    with pytest.raises(EngineRefused, match="substitution is not allowed"):
        bench.connect("ann", configuration={"hive.server2.proxy.user": "boss"})


def test_statements_inside_open_session_are_nobodys(bench: EngineBench) -> None:
    with pytest.raises(EngineRefused, match="knows no rights of yours"):
        bench.connect("ann", configuration={"use:database": "shop"})


@pytest.mark.parametrize("secret", ["", "wrong", "x" * 5000])
def test_a_wrong_secret_opens_nothing(secret: str, bench: EngineBench) -> None:
    with pytest.raises(EngineUnavailable):
        bench.connect("ann", secret=secret)


def test_a_stranger_has_no_rights(bench: EngineBench) -> None:
    client = bench.connect("nobody-knows-me")
    for statement in ("select 1", "show databases", "set sluice.a=1"):
        assert client.run(statement).sql_state == "08S01"
    client.close()


def test_a_revoke_holds_for_the_next_statement(bench: EngineBench) -> None:
    bench.policy("dan", select=["shop.*"])
    client = bench.connect("dan")
    assert client.rows("select count(*) from shop.salaries") == [(3,)]
    bench.policy("dan", select=["shop.orders"])
    assert client.run("select count(*) from shop.salaries").sql_state == ABSENT_TABLE
    assert client.rows("select count(*) from shop.orders") == [(20,)]
    bench.policy("dan", is_active=False, select=["shop.orders"])
    assert client.run("select 1").is_refused
    client.close()


def test_no_secret_lies_open(bench: EngineBench, ann: Client) -> None:
    for pid in (bench.pid, bench.java_pid):
        process = psutil.Process(pid)
        assert bench.secret not in " ".join(process.cmdline())
        assert bench.secret not in repr(process.environ())
    log = bench.log.read_text("utf-8", "replace")
    assert bench.secret not in log
    assert "CANARYROW" not in log


def test_only_loopback_is_listened_on(bench: EngineBench) -> None:
    for pid in (bench.pid, bench.java_pid):
        for link in psutil.Process(pid).net_connections("inet"):
            if link.status == psutil.CONN_LISTEN:
                assert link.laddr.ip in {"127.0.0.1", "::ffff:127.0.0.1"}
