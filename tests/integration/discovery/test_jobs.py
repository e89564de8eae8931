"""Discovery as a job: pages, crashes, doubles, cancel, a source that goes away."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection
from django.utils import timezone

from catalog import dispatch as dispatch_module
from catalog.discovery import services
from catalog.models import Column, Datasource, SchemaVersion, Table
from catalog.sources.postgresql import discover as postgresql
from core import jobs
from core.advance import advance
from core.jobs import page_marks, pages
from core.models import Job
from tests.integration.discovery.support import discover, finish

pytestmark = pytest.mark.django_db
ring_for_real = dispatch_module.notify_worker


@pytest.fixture
def small_pages(monkeypatch) -> None:
    monkeypatch.setattr(services, "PAGE_TABLES", 10)


@pytest.fixture
def tables(source):
    """25 tables of 3 columns, so 3 pages of 10."""
    with source.link() as link:
        for n in range(25):
            link.execute(f"CREATE TABLE t{n:02} (id int PRIMARY KEY, a text, b int)")
    source.grant_all()
    return source


def is_complete(datasource: Datasource) -> None:
    mine = Table.objects.filter(database__datasource=datasource)
    assert list(mine.values_list("name", flat=True)) == [f"t{n:02}" for n in range(25)]
    assert Column.objects.filter(table__in=mine).count() == 75
    assert SchemaVersion.objects.filter(table__in=mine).count() == 25
    assert set(mine.values_list("schema_version", "status")) == {(1, "DISCOVERED")}


def test_one_page_per_call_with_moving_numbers(tables, small_pages, rung) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    assert (job.state, job.done, job.total) == (jobs.QUEUED, 0, None)
    seen = []
    for _ in range(3):
        pages.advance(job.pk)
        job.refresh_from_db()
        seen.append((job.state, job.done, job.total, job.unit))
    assert seen == [
        ("RUNNING", 10, 25, "tables"),
        ("RUNNING", 20, 25, "tables"),
        ("SUCCEEDED", 25, 25, "tables"),
    ]
    assert rung == [job.pk, job.pk]
    assert job.report["pages"] == 3
    lines = list(job.log_lines.values_list("message", flat=True))
    assert lines[0] == "25 tables in 1 databases to read"
    assert lines[1] == "10 tables read, up to public.t09"
    assert job.finished_at
    assert [e.event for e in job.events.all()] == [
        "enqueue", "claim", "accepted", "succeed",
    ]  # fmt: skip
    tables.datasource.refresh_from_db()
    assert tables.datasource.table_count == 25
    assert tables.datasource.discovered_at
    is_complete(tables.datasource)


def test_a_full_last_page_ends_by_an_empty_one(tables, monkeypatch) -> None:
    monkeypatch.setattr(services, "PAGE_TABLES", 25)
    job = discover(tables.datasource)
    assert (job.done, job.report["pages"]) == (25, 2)
    is_complete(tables.datasource)


def test_an_empty_source(source) -> None:
    job = discover(source.datasource)
    assert (job.state, job.done, job.total) == (jobs.SUCCEEDED, 0, 0)


def test_only_one_unfinished_job_at_a_time(source, rung) -> None:
    first = services.start_discovery(source.datasource, by="ann")
    assert services.start_discovery(source.datasource, by="bob").pk == first.pk
    services.start_test(source.datasource, by="ann")
    finish(first)
    assert services.start_discovery(source.datasource, by="ann").pk != first.pk


def test_a_start_that_loses_the_race_gets_the_winner(source, monkeypatch) -> None:
    winner = []

    def lose(*args, **kwargs):
        monkeypatch.undo()
        winner.append(services.start_discovery(source.datasource, by="bob"))
        raise IntegrityError("one_waiting_job_per_key_and_kind")

    datasource = source.datasource
    monkeypatch.setattr(services, "_new", lose)
    # The winner's insert survives: in reality it is another session's.
    monkeypatch.setattr(services.transaction, "atomic", _no_savepoint)
    assert services.start_discovery(datasource, by="ann").pk == winner[0].pk


class _no_savepoint:
    def __enter__(self):
        return None

    def __exit__(self, *exc_info):
        return None


def test_a_crash_at_any_statement_of_the_catalog_loses_nothing(
    tables, small_pages
) -> None:
    """Each piece dies at its n-th statement, for every n, and is rung again."""
    job = services.start_discovery(tables.datasource, by="ann")
    crashes, at = 0, 0
    while not job.is_finished:
        at += 1
        left = [at]

        def crash(execute, sql, params, many, context, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return execute(sql, params, many, context)

        try:
            with connection.execute_wrapper(crash):
                pages.advance(job.pk)
            at = 0  # this page is through: crash at each statement of the next
        except KeyboardInterrupt:
            crashes += 1
        job.refresh_from_db()
        counted = Table.objects.filter(database__datasource=tables.datasource).count()
        assert counted == job.done  # tables and cursor move together or not at all
    assert crashes > 25
    assert job.state == jobs.SUCCEEDED
    is_complete(tables.datasource)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_workers_killed_at_seeded_times_and_resumed(
    tables, sluice_environment, redis_url
) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    program = (
        "import sys, time, uuid; import django; django.setup();"
        "from catalog import dispatch; dispatch.notify_worker = lambda job_id: True;"
        "from catalog.discovery import services; services.PAGE_TABLES = 3;"
        "from core.jobs import pages;"
        "print('ready', flush=True);\n"
        "while True: pages.advance(uuid.UUID(sys.argv[1]))"
    )
    for delay in (0.01, 0.07, 0.13):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(job.pk)],
            env=sluice_environment,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    job = finish(Job.objects.get(pk=job.pk))
    assert job.state == jobs.SUCCEEDED
    assert job.done == 25
    is_complete(tables.datasource)


def test_a_page_that_is_worked_on_is_begun_by_nobody_else(
    tables, small_pages, monkeypatch
) -> None:
    """It takes long at a slow source, and the tick goes on ringing for it."""
    job = services.start_discovery(tables.datasource, by="ann")
    real = postgresql.PostgresReader.page
    meanwhile: list[bool] = []

    def slow(self, *args, **kwargs):
        meanwhile.append(pages.advance(job.pk))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(postgresql.PostgresReader, "page", slow)
    assert finish(job).done == 25
    assert meanwhile == [False] * 3
    is_complete(tables.datasource)


def test_a_page_that_ends_its_worker_each_time_ends_its_job(tables) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    for _ in range(job.max_attempts):
        end_the_worker(job)
        pages.advance(job.pk)  # the next one finds that it had begun
        Job.objects.filter(pk=job.pk).update(not_before=None)
    job.refresh_from_db()
    assert (job.state, job.error_code) == (jobs.FAILED, "page_cut_off")


def test_a_page_of_another_host_is_left_to_it_while_it_may_live(tables) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    end_the_worker(job)
    job.refresh_from_db()
    mark = job.handle["page"] | {"host": "elsewhere"}
    Job.objects.filter(pk=job.pk).update(handle={"page": mark})
    assert pages.advance(job.pk) is False
    mark["until"] = timezone.now().isoformat()
    Job.objects.filter(pk=job.pk).update(handle={"page": mark})
    assert finish(job).state == jobs.SUCCEEDED


def end_the_worker(job: Job) -> None:
    """In the midst of the job's page: nothing is written after it."""

    def dies(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgresql.PostgresReader, "page", dies)
        patch.setattr(page_marks, "end", dies)
        with pytest.raises(KeyboardInterrupt):
            pages.advance(job.pk)
    page_marks._own.clear()


def test_calls_on_finished_and_absent_jobs_do_nothing(source, rung) -> None:
    job = discover(source.datasource)
    before = job.events.count()
    pages.advance(job.pk)
    assert job.events.count() == before
    job_id = job.pk
    Job.objects.all().delete()
    pages.advance(job_id)


def test_cancel_between_pages(tables, small_pages, rung) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    pages.advance(job.pk)
    job.refresh_from_db()
    advance(job, "request_cancel", cancel_requested="cancel")
    assert pages.notify_due() == 1  # asked to stop: at once
    finish(job, most=1)
    assert (job.state, job.done) == (jobs.CANCELLED, 10)
    # What was read stays; nothing was marked as vanished.
    mine = Table.objects.filter(database__datasource=tables.datasource)
    assert set(mine.values_list("status", flat=True)) == {"DISCOVERED"}


def test_cancel_while_a_page_is_read(tables, small_pages, monkeypatch) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    real = postgresql.PostgresReader.page

    def cancelled_meanwhile(self, *args, **kwargs):
        page = real(self, *args, **kwargs)
        advance(Job.objects.get(pk=job.pk), "request_cancel", cancel_requested="cancel")
        return page

    monkeypatch.setattr(postgresql.PostgresReader, "page", cancelled_meanwhile)
    finish(job, most=2)
    assert (job.state, job.done) == (jobs.CANCELLED, 0)


def test_cancel_before_it_began(source) -> None:
    job = services.start_discovery(source.datasource, by="ann")
    Job.objects.filter(pk=job.pk).update(cancel_requested="cancel")
    assert finish(job, most=1).state == jobs.CANCELLED


def test_the_source_goes_away_and_comes_back(tables, small_pages, rung) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    pages.advance(job.pk)
    port = tables.datasource.port
    tables.set(port=1)
    before = timezone.now()
    pages.advance(job.pk)
    job.refresh_from_db()
    assert (job.state, job.done, job.attempts) == (jobs.QUEUED, 10, 1)
    assert job.error_code == "connection_refused"
    assert "nothing listens" in job.reason
    assert job.error_hint
    assert job.not_before > before
    Job.objects.filter(pk=job.pk).update(not_before=before + timedelta(hours=1))
    pages.advance(job.pk)  # too early: nothing happens
    job.refresh_from_db()
    assert job.attempts == 1
    tables.set(port=port)
    job = finish(job)
    assert (job.state, job.done, job.attempts) == (jobs.SUCCEEDED, 25, 0)
    assert (job.error_code, job.error_message, job.reason) == ("", "", "")
    (line,) = job.log_lines.filter(level="error")
    assert "Connection refused" in line.message  # the source's own words
    is_complete(tables.datasource)


def test_the_connection_is_cut_in_the_middle_of_a_page(
    tables, small_pages, monkeypatch
) -> None:
    job = services.start_discovery(tables.datasource, by="ann")
    pages.advance(job.pk)
    real = postgresql.PostgresReader._described

    def cut(self, link, found):
        with tables.link() as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [link.info.backend_pid])
        return real(self, link, found)

    with monkeypatch.context() as patch:
        patch.setattr(postgresql.PostgresReader, "_described", cut)
        pages.advance(job.pk)
    job.refresh_from_db()
    assert (job.state, job.done) == (jobs.QUEUED, 10)
    assert job.error_code == "connection_lost"
    assert finish(job).done == 25
    is_complete(tables.datasource)


def test_a_source_that_stays_away_ends_the_job_with_its_reason(source) -> None:
    source.set(port=1)
    job = discover(source.datasource)
    assert (job.state, job.attempts) == (jobs.FAILED, 4)
    assert job.error_code == "connection_refused"
    assert job.error_hint
    source.set(port=source.server.port)
    advance(job, "retry", attempts=0)
    assert finish(job).state == jobs.SUCCEEDED


def test_a_wrong_password_is_not_tried_again(source) -> None:
    source.set(username="nobody")
    job = discover(source.datasource)
    assert (job.state, job.attempts, job.error_code) == (
        jobs.FAILED,
        0,
        "wrong_password",
    )


def test_a_secret_that_cannot_be_read(source) -> None:
    source.set(secret="00000000:nonsense")
    job = discover(source.datasource)
    assert (job.state, job.error_code) == (jobs.FAILED, "secret_key_missing")


def test_the_datasource_is_removed_meanwhile(source) -> None:
    job = services.start_discovery(source.datasource, by="ann")
    source.datasource.delete()
    finish(job)
    assert (job.state, job.error_code) == (jobs.FAILED, "datasource_removed")


def test_a_page_that_times_out_is_tried_with_fewer_tables(tables, monkeypatch) -> None:
    limits = []
    real = postgresql.PostgresReader.page

    def slow(self, after, *, limit):
        limits.append(limit)
        if limit > 10:
            with self._transaction() as link:
                link.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)")
        return real(self, after, limit=limit)

    monkeypatch.setattr(postgresql.PostgresReader, "page", slow)
    job = services.start_discovery(tables.datasource, by="ann")
    for _ in range(4):
        pages.advance(job.pk)
        Job.objects.filter(pk=job.pk).update(not_before=None)
    assert limits == [500, 125, 31, 10]
    job.refresh_from_db()
    assert job.done == 10


def test_tables_dropped_while_their_page_is_read(tables, monkeypatch) -> None:
    real = postgresql.PostgresReader._described

    def dropped(self, link, found):
        tables.run("DROP TABLE t03")
        return real(self, link, found)

    monkeypatch.setattr(postgresql.PostgresReader, "_described", dropped)
    assert discover(tables.datasource).state == jobs.SUCCEEDED
