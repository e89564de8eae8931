"""A real standby of PostgreSQL: how far it is, and that its promotion is noticed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.table import SourceSpec
from ingest.driver.capture import reading
from ingest.driver.capture.reading import read_bound
from ingest.sources.fingerprint import SourceFingerprint, what_changed
from ingest.sources.port import LogNames, Source
from ingest.sources.registry import open_log_reader, open_source
from tests.integration.ingest.bound_runs import LAG, run_of, table_of
from tests.source_access import postgresql_at
from tests.standby import StandbyPostgres
from tests.waiting import wait_for


@pytest.fixture
def standby(source_pg: Any, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Addresses of a database on the primary and on its standby."""
    primary = source_pg.create_database("mirrored")
    with psycopg.connect(primary, autocommit=True) as link:
        link.execute("CREATE TABLE o (id int PRIMARY KEY, at timestamptz)")
    server = StandbyPostgres(tmp_path, source_pg)
    try:
        yield primary, server.start().url("mirrored")
    finally:
        server.destroy()


@contextmanager
def opened(dsn: str) -> Iterator[tuple[Source, SourceSpec]]:
    access = postgresql_at(dsn)
    with open_source(access) as source:
        yield source, access.spec


def replayed_by(source: Source) -> datetime | None:
    replica = source.clock().replica
    return replica.replayed if replica else None


@pytest.mark.long
def test_a_table_that_was_read_from_a_primary_waits_for_one(
    standby: tuple[str, str],
) -> None:
    """As in a fail-over, where a standby answers until it is promoted."""
    table = table_of("public", "timestamp with time zone")
    low = "2024-01-01T00:00:00.000000Z"
    with opened(standby[1]) as (source, spec):
        run = run_of(spec, table, chosen=False)
        with pytest.raises(TransientError) as waits:
            read_bound(run, source, lag_seconds=5, low=low)
    assert waits.value.code == "standby_without_lag"


def test_a_standby_is_followed_behind_what_it_has_replayed(
    standby: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_QUIET", timedelta(milliseconds=100))
    primary, mirror = standby
    table = table_of("public", "timestamp with time zone")
    with opened(mirror) as (source, spec), opened(primary) as (origin, _):
        assert origin.clock().replica is None
        with pytest.raises(InvalidRequest) as refused:
            read_bound(
                run_of(spec, table, chosen=False), source, lag_seconds=5, low=None
            )
        assert refused.value.code == "standby_without_lag"
        with psycopg.connect(primary, autocommit=True) as writer:
            writer.execute("INSERT INTO o VALUES (0, now())")
        with psycopg.connect(mirror, autocommit=True) as link:
            is_there = "SELECT pg_last_xact_replay_timestamp() IS NOT NULL"
            wait_for(lambda: link.execute(is_there).fetchone()[0], "a replay")  # type: ignore[index]
        with psycopg.connect(mirror, autocommit=True) as link:
            link.execute("SELECT pg_wal_replay_pause()")
            with psycopg.connect(primary, autocommit=True) as writer:
                writer.execute("INSERT INTO o VALUES (1, now())")
                (written,) = writer.execute("SELECT max(at) FROM o").fetchone() or (
                    None,
                )
            time.sleep(0.5)  # so that its clock is well beyond what it replays
            paused = source.clock()
            assert paused.replica is not None
            assert paused.replica.replayed is not None
            assert paused.replica.replayed < written, "not replayed yet"
            run = run_of(spec, table, chosen=True)
            _, bound = read_bound(run, source, lag_seconds=LAG, low=None)
            assert "known to be complete until" in "".join(run.warnings)
            assert bound.reach < written, "nothing is read as if it were complete"
            assert bound.high <= paused.complete_until - timedelta(seconds=LAG - 10)
            link.execute("SELECT pg_wal_replay_resume()")
        wait_for(
            lambda: (replayed_by(source) or written) > written,
            "the row to be replayed",
        )
        # promoted, it is a primary, and the next sync sees that it was
        before = source.source_fingerprint(table)
        with psycopg.connect(mirror, autocommit=True) as link:
            link.execute("SELECT pg_promote()")
        assert source.clock().replica is None
        after = source.source_fingerprint(table)
        assert (before.server, before.relation) == (after.server, after.relation)
        assert after.timeline == before.timeline + 1
        (told,) = what_changed(SourceFingerprint(before), after, source.clock().now)
        assert "promoted" in told


def replicating(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(sql)  # type: ignore[arg-type]
        link.execute("SELECT pg_reload_conf()")


def conninfo_of(dsn: str, more: str) -> str:
    of_server = psycopg.conninfo.conninfo_to_dict(dsn)
    of_server.pop("dbname")
    return psycopg.conninfo.make_conninfo("", **of_server) + more


def let_follow(mirror: str, upstream: str, more: str = "") -> None:
    """From now on, and it pings an upstream that says nothing for a second."""
    replicating(mirror, "ALTER SYSTEM SET wal_receiver_timeout = '2s'")
    literal = psycopg.sql.Literal(conninfo_of(upstream, more)).as_string()
    replicating(mirror, f"ALTER SYSTEM SET primary_conninfo = {literal}")


def heard(mirror: str, port: int, moment: datetime) -> bool:
    """Whether that server told something since."""
    with psycopg.connect(mirror, autocommit=True) as link:
        found = link.execute(
            "SELECT last_msg_send_time > %s FROM pg_stat_wal_receiver"
            " WHERE sender_port = %s AND last_msg_send_time <> last_msg_receipt_time",
            [moment, port],
        ).fetchone()
    return bool(found and found[0])


def written(primary: str, number: int) -> datetime:
    with psycopg.connect(primary, autocommit=True) as writer:
        insert = "INSERT INTO o VALUES (%s, clock_timestamp()) RETURNING at"
        return writer.execute(insert, [number]).fetchone()[0]  # type: ignore[index,no-any-return]


def has_row(mirror: str, number: int) -> bool:
    with psycopg.connect(mirror, autocommit=True) as link:
        row = link.execute("SELECT 1 FROM o WHERE id = %s", [number]).fetchone()
    return row is not None


@pytest.mark.long
def test_a_standby_behind_one_that_is_cut_off_is_not_complete(
    standby: tuple[str, str], source_pg: Any, tmp_path: Path
) -> None:
    primary, middle = standby
    (tmp_path / "last").mkdir()
    server = StandbyPostgres(tmp_path / "last", source_pg)
    try:
        last = server.start().url("mirrored")
        port = int(psycopg.conninfo.conninfo_to_dict(middle)["port"])
        let_follow(last, middle)
        began = written(primary, 1)
        wait_for(lambda: has_row(last, 1), "the first row")
        wait_for(lambda: heard(last, port, began), "a word of the one between")
        replicating(middle, "ALTER SYSTEM SET primary_conninfo = ''")
        late = written(primary, 2)
        wait_for(lambda: heard(last, port, late), "a word of the one between")
        with opened(last) as (source, _):
            clock = source.clock()
        assert clock.replica is not None
        assert clock.replica.replayed is not None
        assert not has_row(last, 2)
        assert clock.complete_until < late, "the row would be passed over"
        replicating(middle, "ALTER SYSTEM RESET primary_conninfo")
        wait_for(lambda: has_row(last, 2), "the row that came later")
    finally:
        server.destroy()


@pytest.mark.long
def test_a_standby_that_wants_a_primary_goes_on_while_that_is_idle(
    standby: tuple[str, str],
) -> None:
    primary, mirror = standby
    last = written(primary, 1)
    wait_for(lambda: has_row(mirror, 1), "the row")
    let_follow(mirror, primary, " target_session_attrs=primary")
    with opened(mirror) as (source, _), opened(primary) as (origin, _):
        idle = origin.clock().now
        assert idle > last
        wait_for(
            lambda: (replayed_by(source) or last) > idle,
            "a word of the primary",
        )


@pytest.mark.long
def test_a_standby_of_an_idle_primary_knows_a_time_when_it_was_just_started(
    standby: tuple[str, str],
) -> None:
    primary, mirror = standby
    with opened(mirror) as (source, _), opened(primary) as (origin, _):
        with psycopg.connect(mirror, autocommit=True) as link:
            seen = link.execute("SELECT pg_last_xact_replay_timestamp()").fetchone()
        assert seen == (None,), "nothing was committed since its base backup"
        replayed = replayed_by(source)
        assert replayed is not None
        assert replayed < origin.clock().now


def test_a_log_is_not_followed_at_a_standby(standby: tuple[str, str]) -> None:
    """debezium/dbz#2431: many a statement about the log fails there."""
    names = LogNames("sluice_mirror", "sluice_mirror")
    opened = open_log_reader(
        postgresql_at(standby[1]),
        names,
        [],
        after=lambda: None,
        wait=lambda reason: None,
    )
    with pytest.raises(TerminalError) as refused, opened:
        pass
    assert refused.value.code == "source_is_standby"
