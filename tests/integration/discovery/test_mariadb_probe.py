"""Each step of the connection test at a real MariaDB, right and wrong in its own way."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from catalog.discovery.probe import STEPS, run_probe
from catalog.sources.mariadb import privileges as mariadb_needs
from catalog.sources.mariadb.discover import MariadbReader
from core import jobs
from core.errors import SluiceError, TerminalError, TransientError
from tests.integration.discovery.support import (
    NAMES,
    PASSWORD,
    READER,
    failing,
    finish,
    statuses,
)
from tests.integration.discovery.tls_proxy import DAY, NOW, Authority
from tests.ports import free_port

pytestmark = pytest.mark.django_db


def code_of_reading(access) -> str:
    """Discovery says the same as the test."""
    with pytest.raises(SluiceError) as raised, MariadbReader(access):
        pass
    return raised.value.code


def test_all_steps_in_order(maria) -> None:
    maria.run("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)")
    report = run_probe(maria.access())
    assert [step.name for step in report.steps] == NAMES
    assert statuses(report) == ["ok", "ok", "skipped", *["ok"] * 5]
    by_name = {step.name: step for step in report.steps}
    assert f"GRANT PROCESS ON *.* TO '{READER}'@'%';" in by_name["privileges"].hint
    assert "1 of 1" in by_name["privileges"].message
    assert by_name["sample"].message == "shop.t was read"
    assert by_name["version"].message.startswith("MariaDB 1")
    assert "SLAVE MONITOR" in by_name["version"].hint
    assert report.facts["server"] == "MariaDB"
    assert report.facts["sees_all_transactions"] is False


def test_what_keeps_its_log_from_being_followed_is_said_with_what_mends_it(
    maria,
) -> None:
    report = run_probe(maria.access())
    assert report.is_ok
    grants = [
        f"GRANT {right} ON *.* TO '{READER}'@'%';"
        for right in ("REPLICATION SLAVE", "BINLOG MONITOR")
    ]
    assert [mends for _, mends in report.facts["log_lacks"]] == grants
    assert all(grant in report.steps[-1].hint for grant in grants)
    maria.grant("REPLICATION SLAVE, BINLOG MONITOR ON *.*")
    report = run_probe(maria.access())
    assert report.facts["log_lacks"] == []
    assert report.steps[-1].message == "its log can be followed"
    for said in ("may set binlog_format", "sync_binlog is 0"):
        assert said in report.steps[-1].hint


def test_a_datasource_of_the_other_kind_works_and_says_so(maria) -> None:
    report = run_probe(maria.access(kind="mysql", database="shop"))
    assert report.is_ok
    assert (
        "the server is MariaDB, the datasource's kind is mysql" in report.steps[4].hint
    )
    assert "in database 'shop'" in report.steps[3].message
    assert report.steps[-2].status == "skipped", report.steps


def test_as_a_job_that_keeps_its_result(maria) -> None:
    from catalog.discovery import services

    maria.run("CREATE TABLE t (a INT)")
    job = finish(services.start_test(maria.datasource, by="ann"))
    assert (job.state, job.done) == (jobs.SUCCEEDED, len(STEPS))
    maria.datasource.refresh_from_db()
    assert maria.datasource.test_result["ok"] is True


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"password": "wrong"}, "wrong_password"),
        ({"password": ""}, "wrong_password"),
        ({"username": "nobody_here"}, "wrong_password"),
        ({"database": "not_there"}, "missing_privilege"),
        ({"database": "mysql"}, "missing_privilege"),
    ],
)
def test_login_fails(maria, change, code) -> None:
    step = failing(run_probe(maria.access(**change)), "login")
    assert step.code == code
    assert code_of_reading(maria.access(**change)) == code


def test_a_database_that_is_not_there(maria) -> None:
    maria.grant("SELECT ON *.*")
    step = failing(run_probe(maria.access(database="not_there")), "login")
    assert step.code == "database_missing"


@pytest.mark.parametrize(
    ("alter", "code"),
    [
        ("ACCOUNT LOCK", "login_not_allowed"),
        ("PASSWORD EXPIRE", "login_not_allowed"),
        ("REQUIRE SSL", "wrong_password"),
        ("IDENTIFIED VIA unix_socket", "wrong_password"),
    ],
)
def test_a_user_who_is_not_let_in(maria, alter, code) -> None:
    maria.run(f"ALTER USER {READER}@'%' {alter}")
    step = failing(run_probe(maria.access()), "login")
    assert step.code == code
    if alter == "REQUIRE SSL":
        assert "REQUIRE SSL" in step.hint
        assert run_probe(maria.access(tls="require")).steps[3].status == "ok"


def test_limits_of_connections(maria, mariadb_server) -> None:
    maria.run(f"ALTER USER {READER}@'%' WITH MAX_USER_CONNECTIONS 1")
    with MariadbReader(maria.access()):
        step = failing(run_probe(maria.access()), "login")
        assert step.code == "too_many_connections"
        with pytest.raises(TransientError), MariadbReader(maria.access()):
            pass


def test_a_user_without_any_grant(maria) -> None:
    maria.revoke_all()
    step = failing(run_probe(maria.access(include=("shop",))), "privileges")
    assert step.code == "missing_privilege"
    assert f"GRANT SELECT ON `shop`.* TO '{READER}'@'%';" in step.hint


def test_a_user_who_sees_only_an_empty_database_is_told_to_grant(maria) -> None:
    maria.add_database("everybodys")
    maria.revoke_all()
    maria.grant("SELECT ON everybodys.*")
    report = run_probe(maria.access())
    step = {one.name: one for one in report.steps}["privileges"]
    assert (step.status, step.message) == ("ok", "0 of 0 tables can be read")
    assert "sees no table: GRANT SELECT on what is to be synced" in step.hint


def test_no_table_may_be_read(maria) -> None:
    maria.run("CREATE TABLE t (a INT)")
    maria.revoke_all()
    maria.grant("INSERT ON shop.*")
    step = failing(run_probe(maria.access()), "privileges")
    assert (step.code, "none of 1" in step.message) == ("missing_privilege", True)


def test_the_statements_that_the_hint_names_are_enough_and_no_more(maria) -> None:
    for name in ("a_b", "axb", "it`s"):
        maria.add_database(name)
        maria.run("CREATE TABLE t (a INT)", database=name)
    maria.revoke_all()
    who = mariadb_needs.account(READER)
    wanted = mariadb_needs.statements_for(who, ["a_b", "it`s"])
    maria.run(*wanted)
    report = run_probe(maria.access())
    assert report.is_ok
    assert report.steps[5].hint == ""
    with MariadbReader(maria.access()) as reader:
        assert reader.overview().databases == ("a_b", "it`s")
    script = mariadb_needs.script(READER, "a_b")
    assert wanted[0] in script
    assert wanted[-1] in script
    assert f"-- GRANT SLAVE MONITOR ON *.* TO {who};" in script


def test_an_empty_server_is_a_good_one(maria) -> None:
    report = run_probe(maria.access())
    assert report.is_ok
    assert report.steps[-2].status == "skipped", report.steps


def test_a_locked_table_does_not_hang_the_sample(maria) -> None:
    maria.run("CREATE TABLE t (a INT)")
    with maria.server.connect("shop") as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        report = run_probe(maria.access())
    assert report.failed.code in {"source_locked", "source_timeout"}
    assert report.failed.name in {"privileges", "sample"}


# ------------------------------------------------------------------------- TLS
@pytest.fixture
def certificates(maria, monkeypatch) -> Iterator[Authority]:
    """The server's authority, trusted; the server's certificate as before, after."""
    authority = maria.server.authority
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    yield authority
    authority.server_context(host=maria.server.host)
    maria.run("FLUSH SSL")


@pytest.mark.parametrize("tls", ["require", "verify"])
def test_encrypted(maria, certificates, tls) -> None:
    report = run_probe(maria.access(tls=tls))
    assert report.is_ok, report.failed
    words = {"require": "certificate not checked", "verify": "certificate checked"}
    assert words[tls] in report.steps[2].message
    assert report.steps[2].message.startswith("TLSv1.")
    with MariadbReader(maria.access(tls=tls)) as reader, reader._statements() as link:
        assert link.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]


@pytest.mark.parametrize("fault", ["unknown authority", "expired", "other host"])
def test_a_certificate_that_is_not_accepted(
    maria, certificates, tmp_path, fault, monkeypatch
) -> None:
    if fault == "unknown authority":
        other = Authority(tmp_path, "other")
        monkeypatch.setenv("SSL_CERT_FILE", str(other.path))
    else:
        until = NOW - DAY if fault == "expired" else NOW + DAY
        host = "db.example.org" if fault == "other host" else maria.server.host
        certificates.server_context(host=host, until=until)
        maria.run("FLUSH SSL")
    step = failing(run_probe(maria.access(tls="verify")), "tls")
    assert (step.code, bool(step.raw)) == ("tls_certificate", True)
    assert code_of_reading(maria.access(tls="verify")) == "tls_certificate"
    assert run_probe(maria.access(tls="require")).is_ok


def test_a_wrong_password_is_the_logins_fault_not_that_of_tls(maria) -> None:
    step = failing(run_probe(maria.access(tls="require", password="x")), "login")
    assert step.code == "wrong_password"


# -------------------------------------------------------- servers of other manners
@contextlib.contextmanager
def answering(first: bytes, *more: bytes) -> Iterator[int]:
    """A server that sends `first`, then one of `more` after each thing it hears."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.settimeout(60)
                        client.sendall(first)
                        for answer in more:
                            heard.append(client.recv(4096))
                            client.sendall(answer)
                        while client.recv(4096):
                            pass

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
    assert PASSWORD.encode() not in b"".join(heard)


def packet(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


def error(number: int, code: int, words: str) -> bytes:
    return packet(number, b"\xff" + struct.pack("<H", code) + words.encode())


def greeting(version: str = "8.0.36", *, tls: bool = False) -> bytes:
    flags = 0x0000_0200 | 0x8000 | (0x0800 if tls else 0)  # 4.1, secure login, TLS
    upper = 0x0008  # login methods have names
    return packet(
        0,
        b"\x0a" + version.encode() + b"\0" + struct.pack("<I", 7) + b"12345678\0"
        + struct.pack("<HBHHB", flags, 45, 2, upper, 21) + bytes(10)
        + b"123456789012\0" + b"mysql_native_password\0",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected", "kind"),
    [
        (1040, "too_many_connections", TransientError),
        (1129, "host_blocked", TerminalError),
        (1130, "login_not_allowed", TerminalError),
        (1053, "source_starting", TransientError),
        (9999, "source_error", TransientError),
    ],
)
def test_a_server_that_refuses_at_the_door(maria, code, expected, kind) -> None:
    with answering(error(0, code, "worte in einer anderen Sprache")) as port:
        step = failing(run_probe(maria.access(port=port)), "login")
        assert failing(run_probe(maria.access(port=port, tls="require")), "tls")
        with pytest.raises(kind), MariadbReader(maria.access(port=port)):
            pass
    assert step.code == expected


@pytest.mark.parametrize("tls", ["require", "verify"])
def test_a_server_without_tls(maria, tls) -> None:
    with answering(greeting()) as port:
        step = failing(run_probe(maria.access(port=port, tls=tls)), "tls")
    assert step.code == "tls_not_offered"


def test_a_server_that_wants_tls(maria) -> None:
    refusal = error(2, 3159, "Connections using insecure transport are prohibited")
    with answering(greeting(), refusal) as port:
        step = failing(run_probe(maria.access(port=port)), "login")
    assert step.code == "tls_required"


@pytest.mark.parametrize("method", [b"mysql_clear_password", b"dialog"])
def test_the_password_is_not_shown_to_who_asks_for_it_without_tls(
    maria, method
) -> None:
    asks = packet(2, b"\xfe" + method + b"\0" + b"\x02Password: ")
    with answering(greeting(), asks, b"") as port:
        step = failing(run_probe(maria.access(port=port)), "login")
    assert step.code == "login_method"


@pytest.mark.parametrize(
    "first",
    [
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        packet(0, b"\x0a"),
        packet(0, b"\x0anot a version\0" + bytes(40)),
        packet(0, b""),
    ],
)
def test_something_that_is_no_mariadb(maria, first) -> None:
    with answering(first) as port:
        access = maria.access(port=port, connect_timeout=1)
        step = failing(run_probe(access), "login")
    assert step.code in {"not_mariadb", "source_timeout", "connection_lost"}


@pytest.mark.parametrize("tls", ["off", "require"])
def test_a_server_that_says_nothing(maria, tls) -> None:
    first = greeting(tls=True) if tls == "require" else b""
    with answering(first) as port:
        access = maria.access(port=port, tls=tls, connect_timeout=1)
        step = failing(run_probe(access), "tls" if tls == "require" else "login")
    assert step.code == "source_timeout"


def test_wrong_port(maria) -> None:
    port = free_port()
    step = failing(run_probe(maria.access(port=port)), "tcp")
    assert step.code == "connection_refused"
    assert code_of_reading(maria.access(port=port)) == "connection_refused"


def test_a_name_is_resolved_once_and_kept_for_tls(maria, monkeypatch) -> None:
    asked = []
    real = socket.getaddrinfo

    def answer(host, port, *args, **kwargs):
        if host != "rebind.example":
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return real("127.0.0.1", port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert run_probe(maria.access(host="rebind.example")).is_ok
    with MariadbReader(maria.access(host="rebind.example")) as reader:
        assert reader._link.host == "rebind.example"
    assert len(asked) == 2  # once for the test, once for the reader


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ("10.5.0-MariaDB", True),
        ("11.8.2-MariaDB-ubu2404-log", True),
        ("10.4.34-MariaDB", False),
        ("8.0.36", True),
        ("8.0.mysql_aurora.3.04.0", True),
        ("9.1.0", True),
        ("5.7.44-log", False),
        ("odd", False),
    ],
)
def test_versions(maria, version, is_enough, monkeypatch) -> None:
    from catalog.sources.mariadb import probe as mariadb_probe

    monkeypatch.setattr(
        mariadb_probe, "VERSION", f"SELECT '{version}', @@GLOBAL.read_only"
    )
    step = run_probe(maria.access()).steps[4]
    assert (step.status == "ok") is is_enough
    assert version in step.message
    assert step.code == ("" if is_enough else "version_too_old")
