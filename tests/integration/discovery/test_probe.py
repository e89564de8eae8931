"""Each step of the connection test, right and wrong in its own way, on a real server."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading

import pytest

from catalog.discovery import services
from catalog.discovery.probe import STEPS, run_probe
from catalog.sources.access import DEFAULT_STATEMENT_SECONDS
from catalog.sources.postgresql import privileges as needs
from core import jobs
from tests.integration.discovery.support import (
    NAMES,
    PASSWORD,
    READER,
    failing,
    finish,
    statuses,
)
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.django_db


def test_all_steps_in_order(source) -> None:
    source.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    source.grant_all()
    heard = []
    report = run_probe(source.access(), on_step=lambda s: heard.append(s.name))
    assert [step.name for step in report.steps] == heard == NAMES
    assert NAMES == [
        "resolve",
        "tcp",
        "tls",
        "login",
        "version",
        "privileges",
        "sample",
        "log",
    ]
    assert statuses(report) == ["ok", "ok", "skipped", *["ok"] * 5]
    assert report.is_ok
    by_name = {step.name: step for step in report.steps}
    assert "pg_read_all_stats" in by_name["privileges"].hint
    assert "1 of 1" in by_name["privileges"].message
    assert "public.t" in by_name["sample"].message
    assert report.facts["sees_all_transactions"] is False
    assert report.facts["server_version"].startswith("18")


def test_what_following_its_log_needs_is_told_with_the_statement(source) -> None:
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    report = run_probe(source.access())
    assert report.is_ok
    log = report.steps[-1]
    assert (log.name, log.status) == ("log", "ok")
    assert f'ALTER ROLE "{READER}" REPLICATION;' in log.hint
    source.run(f"ALTER ROLE {READER} REPLICATION")
    try:
        report = run_probe(source.access())
    finally:
        source.run(f"ALTER ROLE {READER} NOREPLICATION")
    assert report.facts["log_lacks"] == []
    # servers of tests have fsync = off
    assert "ALTER SYSTEM SET fsync = on" in report.steps[-1].hint


def test_with_the_stats_role_there_is_no_hint(source, source_pg) -> None:
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    source.run(f"GRANT pg_read_all_stats TO {READER}")
    try:
        report = run_probe(source.access())
    finally:
        source.run(f"REVOKE pg_read_all_stats FROM {READER}")
    assert report.facts["sees_all_transactions"] is True
    assert report.steps[5].hint == ""
    assert "it is empty" in report.steps[6].message


def test_no_table_at_all(source) -> None:
    report = run_probe(source.access())
    assert report.is_ok
    assert statuses(report)[-3:] == ["ok", "skipped", "ok"]


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("no-such-host.invalid", "unknown_host"),
        ("a b", "invalid_host"),
        ("127.1", "invalid_host"),
        ("2130706433", "invalid_host"),
        ("/tmp", "invalid_host"),
        ("127.0.0.1,10.0.0.1", "invalid_host"),
        ("169.254.169.254", "network_denied"),
        ("::ffff:169.254.169.254", "network_denied"),
        ("0.0.0.0", "network_denied"),
        ("fe80::1", "network_denied"),
    ],
)
def test_resolve_fails(source, host, code) -> None:
    step = failing(run_probe(source.access(host=host)), "resolve")
    assert step.code in {code, "resolve_timeout"}


def test_a_name_with_one_denied_address_is_refused(source, monkeypatch) -> None:
    """As after a rebinding: nothing is ever connected to."""
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *a, **k: [(*entry, ("127.0.0.1", 1)), (*entry, ("169.254.1.1", 1))],
    )
    monkeypatch.setattr(socket, "create_connection", None)
    step = failing(run_probe(source.access(host="evil.example")), "resolve")
    assert step.code == "network_denied"


def test_a_name_is_resolved_once_and_only_that_address_used(
    source, monkeypatch
) -> None:
    asked = []
    real = socket.getaddrinfo

    def answer(host, port, *args, **kwargs):
        if host != "rebind.example":
            return real(host, port, *args, **kwargs)
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "169.254.1.1"
        return real(address, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    assert run_probe(source.access(host="rebind.example")).is_ok
    assert len(asked) == 1


def test_a_resolver_that_hangs_is_left(source, monkeypatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *a, **k: [release.wait(LIMIT_SECONDS)][:0]
    )
    access = source.access(host="slow.example", connect_timeout=1)
    step = failing(run_probe(access), "resolve")
    release.set()
    assert step.code == "resolve_timeout"


def test_wrong_port(source) -> None:
    port = free_port()
    step = failing(run_probe(source.access(port=port)), "tcp")
    assert step.code == "connection_refused"
    assert f"127.0.0.1:{port}" in step.message
    assert "refused" in step.raw


@pytest.mark.parametrize("tls", ["require", "verify"])
def test_a_server_without_tls(source, tls) -> None:
    step = failing(run_probe(source.access(tls=tls)), "tls")
    assert step.code == "tls_not_offered"


@pytest.mark.parametrize("tls", ["off", "require"])
def test_something_that_is_no_postgresql(source, tls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    answer(listener.accept()[0])

        def answer(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                client.settimeout(5)
                if tls == "require":
                    client.recv(100)
                client.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
                while client.recv(100):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        report = run_probe(source.access(port=port, tls=tls, connect_timeout=2))
    step = failing(report, "tls" if tls == "require" else "login")
    assert step.code in {"not_postgresql", "connection_lost", "source_timeout"}


def test_a_server_that_accepts_and_says_nothing(source) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        access = source.access(port=listener.getsockname()[1], connect_timeout=2)
        step = failing(run_probe(access), "login")
    assert step.code == "source_timeout"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"password": "wrong"}, "wrong_password", READER),
        ({"password": ""}, "wrong_password", READER),
        ({"username": "nobody_here"}, "wrong_password", "nobody_here"),
        ({"database": "not_there"}, "database_missing", "not_there"),
        ({"database": "postgresql://evil/x"}, "database_missing", "postgresql://"),
        ({"database": "x' host=evil"}, "database_missing", "x' host=evil"),
    ],
)
def test_login_fails(source, change, code, words) -> None:
    step = failing(run_probe(source.access(**change)), "login")
    assert step.code == code
    assert words in step.message
    assert "FATAL" in step.raw or "password" in step.raw


def test_no_connection_left_for_this_role(source) -> None:
    source.run(f"ALTER ROLE {READER} CONNECTION LIMIT 0")
    try:
        step = failing(run_probe(source.access()), "login")
    finally:
        source.run(f"ALTER ROLE {READER} CONNECTION LIMIT -1")
    assert step.code == "too_many_connections"


def test_the_right_to_connect_is_missing(source) -> None:
    source.run(f'REVOKE CONNECT ON DATABASE "{source.name}" FROM PUBLIC')
    step = failing(run_probe(source.access()), "login")
    assert step.code == "missing_privilege"


def test_no_table_may_be_read(source) -> None:
    source.run('CREATE SCHEMA "sa\'l""es"', 'CREATE TABLE "sa\'l""es".t (a int)')
    step = failing(run_probe(source.access()), "privileges")
    assert step.code == "missing_privilege"
    assert 'GRANT USAGE ON SCHEMA "sa\'l""es"' in step.hint


def test_the_statements_for_tables_that_cannot_be_read_are_enough(source) -> None:
    source.run("CREATE TABLE t (a int)", "CREATE SCHEMA sales")
    source.run("CREATE TABLE sales.v (a int)")
    source.run(*needs.statements_for(READER, source.name, ["public"]))
    step = run_probe(source.access()).steps[5]
    count, _, statements = step.hint.partition(": ")
    assert count == "1 more can be read with more grants"
    assert "sales" in statements
    assert "public" not in statements
    source.run(statements)
    assert run_probe(source.access()).facts["readable_tables"] == 2


def test_the_statements_that_the_hint_names_are_enough(source, source_pg) -> None:
    source.run('CREATE SCHEMA "we""ird"', 'CREATE TABLE "we""ird".t (a int)')
    wanted = needs.statements_for(READER, source.name, ["public", 'we"ird'])
    source.run(*wanted)
    source.run('CREATE TABLE "we""ird".later (a int)')
    report = run_probe(source.access())
    source.run(f"REVOKE pg_read_all_stats FROM {READER}")
    assert report.is_ok
    assert report.facts["readable_tables"] == 2
    assert report.steps[5].hint == ""
    script = needs.script(READER, source.name)
    assert all(line in script for line in wanted[:3])


def test_a_locked_table_does_not_hang_the_sample(source) -> None:
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    with source.link() as holder, holder.transaction():
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        step = failing(run_probe(source.access()), "sample")
    assert step.code == "source_locked"


def test_as_a_job_with_moving_progress_and_kept_result(source, rung) -> None:
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    job = services.start_test(source.datasource, by="ann")
    assert (job.state, job.total, job.unit) == (jobs.QUEUED, len(STEPS), "steps")
    assert services.start_test(source.datasource, by="bob").pk == job.pk
    job = finish(job)
    assert (job.state, job.done) == (jobs.SUCCEEDED, len(STEPS))
    source.datasource.refresh_from_db()
    assert source.datasource.tested_at is not None
    assert source.datasource.test_result["ok"] is True
    assert [s["name"] for s in source.datasource.test_result["steps"]] == NAMES
    assert [e.event for e in job.events.all()] == [
        "enqueue", "claim", "accepted", "succeed",
    ]  # fmt: skip
    again = services.start_test(source.datasource, by="ann")
    assert again.pk != job.pk


def test_a_failed_test_is_a_failed_job_with_its_reason(source) -> None:
    source.set(database="not_there")
    job = finish(services.start_test(source.datasource, by="ann"))
    assert (job.state, job.error_code) == (jobs.FAILED, "database_missing")
    assert job.error_hint
    assert job.reason == job.error_message
    assert "login failed" in str([line.message for line in job.log_lines.all()])
    assert job.report["steps"][3]["status"] == "failed"
    source.datasource.refresh_from_db()
    assert source.datasource.test_result["ok"] is False


def test_a_result_for_an_edited_datasource_is_not_kept(source, monkeypatch) -> None:
    job = services.start_test(source.datasource, by="ann")
    real = services.run_probe

    def edited_meanwhile(access, **kwargs):
        type(source.datasource).objects.update(version=99)
        return real(access, **kwargs)

    monkeypatch.setattr(services, "run_probe", edited_meanwhile)
    finish(job)
    source.datasource.refresh_from_db()
    assert source.datasource.test_result is None


def test_options_of_the_datasource_reach_the_connection(source) -> None:
    source.set(
        options={
            "connect_timeout_seconds": 3,
            "statement_timeout_seconds": 0,
            "include_databases": ["a"],
            "exclude_databases": ["b"],
        }
    )
    access = source.access()
    assert (access.connect_timeout, access.statement_timeout) == (
        3,
        DEFAULT_STATEMENT_SECONDS,
    )
    assert (access.include, access.exclude) == (("a",), ("b",))
    assert PASSWORD not in repr(access)
    assert dataclasses.replace(access).password == PASSWORD
