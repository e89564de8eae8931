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

from core.errors import InvalidRequest
from ingest.capture.cursor import read_bound
from ingest.contract.table import SourceSpec
from ingest.sources.registry import Source, open_source
from ingest.sources.signs import Signs, what_changed
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


def test_a_standby_is_followed_behind_what_it_has_replayed(
    standby: tuple[str, str],
) -> None:
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
            _, bound = read_bound(
                run_of(spec, table, chosen=True), source, lag_seconds=LAG, low=None
            )
            assert bound.reach < written, "nothing is read as if it were complete"
            assert bound.high <= paused.complete_until - timedelta(seconds=LAG - 10)
            link.execute("SELECT pg_wal_replay_resume()")
        wait_for(
            lambda: (replayed_by(source) or written) > written,
            "the row to be replayed",
        )
        # promoted, it is a primary, and the next sync sees that it was
        before = source.signs(table)
        with psycopg.connect(mirror, autocommit=True) as link:
            link.execute("SELECT pg_promote()")
        assert source.clock().replica is None
        after = source.signs(table)
        assert (before.server, before.relation) == (after.server, after.relation)
        assert after.timeline == before.timeline + 1
        (told,) = what_changed(Signs(before), after, source.clock().now)
        assert "promoted" in told
