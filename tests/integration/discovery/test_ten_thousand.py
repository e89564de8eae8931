"""10,000 tables on a real server: memory, moving progress, statements. The same with a
few tables, in every run: test_jobs.py."""

from __future__ import annotations

import time

import psutil
import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.discovery import services
from catalog.models import Column, Table
from core import jobs
from core.jobs import pages

TABLES = 10_000


@pytest.fixture
def crowded(own_source):
    """Four schemas of 2,500 tables, six columns each, a third with a key."""
    template = "CREATE TABLE s%s.{name} (id bigint{key}, a varchar(20), b numeric(12,2), c timestamptz, d date, e uuid)"
    with own_source.link() as link:
        for schema in range(4):
            link.execute(f"CREATE SCHEMA s{schema}")
            # In portions: one transaction holds a lock per table.
            for first in range(0, TABLES // 4, 500):
                statements = [
                    template.format(
                        name=f"table_{n:05}", key="" if n % 3 else " PRIMARY KEY"
                    )
                    % schema
                    for n in range(first, first + 500)
                ]
                link.execute(";".join(statements))
    own_source.grant_all(*(f"s{schema}" for schema in range(4)))
    return own_source


@pytest.mark.long
@pytest.mark.django_db
def test_ten_thousand_tables(crowded, monkeypatch, record_testsuite_property) -> None:
    process = psutil.Process()
    sent = []
    real = psycopg.Connection.execute

    def counted(self, query, *args, **kwargs):
        sent.append(query)
        return real(self, query, *args, **kwargs)

    job = services.start_discovery(crowded.datasource, by="ann")
    pages.advance(job.pk)  # warm: caches and plans exist now
    before = process.memory_info().rss
    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    seen, catalog_statements = [], []
    cpu = time.process_time()
    while True:
        sent.clear()
        with CaptureQueriesContext(connection) as queries:
            pages.advance(job.pk)
        catalog_statements.append(len(queries))
        job.refresh_from_db()
        seen.append(job.done)
        assert len(sent) <= 8
        if job.is_finished:
            break
    grown = process.memory_info().rss - before
    record_testsuite_property("cpu_seconds", time.process_time() - cpu)
    record_testsuite_property("rss_growth_mib", grown / 2**20)
    record_testsuite_property("pages", len(seen))
    record_testsuite_property("statements_per_page", max(catalog_statements))

    assert job.state == jobs.SUCCEEDED
    assert (job.done, job.total) == (TABLES, TABLES)
    assert seen == sorted(seen)
    assert len(seen) >= 19
    assert len(set(seen)) >= 19  # the number moves with each page
    assert max(catalog_statements) <= 30
    mine = Table.objects.filter(database__datasource=crowded.datasource)
    assert mine.count() == TABLES
    assert Column.objects.filter(table__in=mine).count() == 6 * TABLES
    assert mine.exclude(record_key=[]).count() == sum(
        4 for n in range(TABLES // 4) if n % 3 == 0
    )
    # A page is the unit of memory: all tables at once would be far more.
    assert grown <= 64 * 2**20
