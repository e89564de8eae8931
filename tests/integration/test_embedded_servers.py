"""The embedded servers: start, recognise, restart after a kill, leave nothing."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.embedded import EmbeddedPostgres, EmbeddedRedis, postgres
from core.errors import TerminalError
from core.processes.identity import ProcessIdentity, read_identity
from tests.processes import wait_until_gone


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    """One cluster, since making one takes long; each test starts its server."""
    one = EmbeddedPostgres(tmp_path_factory.mktemp("home"), "metadata", durable=False)
    yield one
    one.destroy()


def test_postgres_keeps_its_data_over_kill_and_restart(
    server: EmbeddedPostgres,
) -> None:
    server.start()
    url = server.ensure_database("kept")
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("CREATE TABLE t AS SELECT 42 AS answer")
        link.execute("CHECKPOINT")
        setting = link.execute(
            "SELECT current_setting('wal_level'), current_setting('server_encoding'),"
            " current_setting('dynamic_shared_memory_type')"
        ).fetchone()
    assert setting == ("logical", "UTF8", "mmap")
    identity = read_identity(server.pid_file)
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    server.stop()
    assert not server.is_running()
    server.start()
    with psycopg.connect(server.ensure_database("kept")) as link:
        assert link.execute("SELECT answer FROM t").fetchone() == (42,)


def test_postgres_wants_the_password(server: EmbeddedPostgres) -> None:
    address = server.start()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(
            host=address.host,
            port=address.port,
            user=address.username,
            password="wrong",
            dbname="postgres",
        )


def test_a_folder_that_was_removed_without_its_data_says_where_that_lies(
    server: EmbeddedPostgres,
) -> None:
    """Of root it lies elsewhere, for the server runs as another user."""
    server.start()
    server.stop()
    password = server.home / "keys" / "postgres-metadata"
    kept = password.rename(password.with_name("kept"))
    with pytest.raises(TerminalError) as raised:
        server.start()
    kept.rename(password)
    assert raised.value.code == "postgres_password_missing"
    assert str(server.store) in raised.value.hint
    server.start()


def test_postgres_stops_although_its_pid_file_is_gone(server: EmbeddedPostgres) -> None:
    """Nobody but its child handle knows it then."""
    server.start()
    child = server._child
    assert child is not None
    server.pid_file.unlink()
    server.stop()
    assert child.poll() == 0


@pytest.mark.long
def test_a_stuck_backend_makes_the_shutdown_immediate(
    server: EmbeddedPostgres, monkeypatch
) -> None:
    monkeypatch.setattr(postgres, "FAST_SECONDS", 1.0)
    address = server.start()
    said = len(server.log.read_text())
    with psycopg.connect(address.url("postgres")) as link:
        backend = ProcessIdentity.of(link.info.backend_pid)
        os.kill(link.info.backend_pid, signal.SIGSTOP)
        server.stop()
    log = server.log.read_text()[said:]
    fast, immediate = (
        log.index(f"received {how} shutdown request") for how in ("fast", "immediate")
    )
    assert fast < immediate
    assert backend is not None
    assert not backend.is_alive()
    server.start()  # it recovers


def test_a_server_that_hears_nothing_is_killed(
    server: EmbeddedPostgres, monkeypatch
) -> None:
    monkeypatch.setattr(postgres, "FAST_SECONDS", 0.5)
    monkeypatch.setattr(postgres, "IMMEDIATE_SECONDS", 0.5)
    server.start()
    child = server._child
    assert child is not None
    family = psutil.Process(child.pid).children(recursive=True)
    os.kill(child.pid, signal.SIGSTOP)
    server.stop()
    assert child.poll() == -signal.SIGKILL
    wait_until_gone(family)


def test_one_that_survives_being_killed_is_no_endless_wait(
    server: EmbeddedPostgres, monkeypatch
) -> None:
    """As in a kernel that waits for a disk: here nobody signals it."""
    server.start()
    with monkeypatch.context() as patch:
        for name in ("ask", "end"):
            patch.setattr(postgres, name, lambda *given, **more: False)
        patch.setattr(postgres, "REAP_SECONDS", 0.2)
        with pytest.raises(TerminalError) as raised:
            server.stop()
    assert raised.value.code == "postgres_not_stopped"
    assert server.is_running()  # and still known, so it can be tried again


def test_postgres_leaves_nothing_when_destroyed(server: EmbeddedPostgres) -> None:
    address = server.start()
    identity = read_identity(server.pid_file)
    server.destroy()
    assert identity is not None
    assert not identity.is_alive()
    assert not server.data.exists()
    with socket.socket() as probe:
        assert probe.connect_ex((address.host, address.port)) != 0


def test_a_reused_pid_is_not_taken_for_the_server() -> None:
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert own.is_alive()
    assert not ProcessIdentity(own.pid, own.start_time - 100).is_alive()


def test_redis_at_rest_wakes_once_a_second(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    with redis.Redis.from_url(server.start()) as client:
        assert client.config_get("hz") == {"hz": "1"}
    server.stop()


def test_redis_wants_the_password_and_ends(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    url = server.start()
    with redis.Redis.from_url(url) as client:
        assert client.ping()
    with (
        redis.Redis(
            host="127.0.0.1", port=int(url.rsplit(":", 1)[1].split("/")[0])
        ) as anybody,
        pytest.raises(redis.AuthenticationError),
    ):
        anybody.ping()
    server.stop()
    assert not server.is_running()
