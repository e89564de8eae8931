"""How discovery behaves at a source: locks, sessions, silence, few statements."""

from __future__ import annotations

import re

import psycopg
import pytest

from catalog.discovery import services
from catalog.sources.postgresql import discover as postgresql
from core import jobs
from core.errors import TransientError
from core.jobs import pages
from tests.integration.discovery.support import discover, table
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db


def test_a_lock_at_the_source_does_not_stop_the_reading(source) -> None:
    source.run(
        "CREATE TABLE t AS SELECT n FROM generate_series(1, 5000) n", "ANALYZE t"
    )
    with source.link() as holder, holder.transaction():
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        job = discover(source.datasource)
    assert job.state == jobs.SUCCEEDED
    assert table(source, "t").estimated_rows == 5000


def test_the_session_writes_nothing_and_leaves_nothing_behind(source) -> None:
    source.run("CREATE TABLE t (x int)", "GRANT ALL ON t TO PUBLIC")
    with services.reader_for(source.datasource) as reader:
        with (
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
            reader._link.transaction(),
        ):
            reader._link.execute("INSERT INTO t VALUES (1)")
        with source.link() as link:
            (name,) = link.execute(
                "SELECT application_name FROM pg_stat_activity WHERE datname = %s"
                " AND usename = 'sluice_reader'",
                [source.name],
            ).fetchone()
    assert name == "sluice:discovery"
    with source.link() as link:
        wait_for(
            lambda: (
                not link.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE usename = 'sluice_reader'"
                ).fetchall()
            ),
            "the end of its session",
        )


def test_a_server_that_stops_answering_is_left(source, monkeypatch) -> None:
    """Its own statement time-out cannot help then; the client hangs up."""
    from catalog.sources.postgresql import connect as connection
    from catalog.sources.postgresql import statements as postgresql_sql

    monkeypatch.setattr(connection, "HANG_UP_AFTER", 0)
    monkeypatch.setattr(
        postgresql_sql,
        "SETTINGS",
        postgresql_sql.SETTINGS.replace("%(statement_ms)s", "'0'"),
    )
    monkeypatch.setattr(
        postgresql_sql, "COUNT", "SELECT count(*), pg_sleep(60) IS NULL"
    )
    reader = postgresql.PostgresReader(source.access(statement_timeout=1))
    with pytest.raises(TransientError) as raised, reader:
        reader.overview()
    assert raised.value.code == "connection_lost"


def test_statements_per_page_do_not_grow_with_tables(
    source, django_assert_max_num_queries, monkeypatch
) -> None:
    source.run(
        *(f"CREATE TABLE t{n} (id int PRIMARY KEY, a text, b int)" for n in range(60))
    )
    source.run("CREATE TABLE p (a int) PARTITION BY LIST (a)")
    sent: list[str] = []
    real = psycopg.Connection.execute

    def counted(self, query, *args, **kwargs):
        sent.append(re.sub(r"\s+", " ", str(query))[:40])
        return real(self, query, *args, **kwargs)

    job = services.start_discovery(source.datasource, by="ann")
    with monkeypatch.context() as patch, django_assert_max_num_queries(35):
        patch.setattr(psycopg.Connection, "execute", counted)
        pages.advance(job.pk)
    job.refresh_from_db()
    assert job.state == jobs.SUCCEEDED
    assert job.done == 61
    assert len(sent) <= 12, sent


@pytest.mark.parametrize("start", [services.start_discovery, services.start_test])
def test_every_statement_of_a_job_has_limits_and_the_job_s_name(
    source, monkeypatch, start
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    source.grant_all()
    real = psycopg.Connection.execute
    seen: list[tuple[str, ...]] = []

    def watched(self, query, *args, **kwargs):
        done = real(self, query, *args, **kwargs)
        names = ("lock_timeout", "statement_timeout", "application_name")
        names += ("idle_in_transaction_session_timeout",)
        shown = ", ".join(f"current_setting('{name}')" for name in names)
        seen.append(real(self, f"SELECT {shown}").fetchone())
        return done

    job = start(source.datasource, by="ann")
    monkeypatch.setattr(psycopg.Connection, "execute", watched)
    pages.advance(job.pk)
    monkeypatch.undo()
    job.refresh_from_db()
    assert job.state == jobs.SUCCEEDED
    assert set(seen) == {("2s", "20s", f"sluice:{job.pk}", "1min")}


def test_a_refused_login_comes_without_its_state(source_pg) -> None:
    """When this fails, `catalog.sources.postgresql.errors` need not read words any more."""
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect(
            host=source_pg.host,
            port=source_pg.port,
            user=source_pg.username,
            password="wrong",
            dbname="postgres",
        )
    assert raised.value.sqlstate is None
    assert raised.value.diag.sqlstate is None
