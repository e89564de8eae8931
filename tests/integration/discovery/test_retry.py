"""Another go for tests and discoveries over REST, as the button of a job's page."""

from __future__ import annotations

import pytest

from catalog.discovery import again, services
from catalog.models import Datasource, Table
from core import jobs
from core.errors import IllegalTransition, InvalidRequest, StaleState
from core.jobs import pages
from core.models import Job
from tests.integration.catalog.asking import grants_now, problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.discovery.support import discover, finish

pytestmark = pytest.mark.django_db


@pytest.fixture
def failed(source) -> Job:
    """A discovery that gave up: nothing listened on the port."""
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    port = source.datasource.port
    source.set(port=1)
    job = discover(source.datasource)
    assert job.state == jobs.FAILED
    source.set(port=port)
    return job


@pytest.mark.parametrize("kind", [services.TEST, services.DISCOVER])
def test_retry_over_rest(
    kind, source, admin, rung, django_capture_on_commit_callbacks
) -> None:
    start = {"test": services.start_test, "discover": services.start_discovery}[kind]
    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    source.set(username="nobody")
    job = finish(start(source.datasource, by="ann"))
    assert (job.state, job.error_code) == (jobs.FAILED, "wrong_password")
    source.set(username="sluice_reader")
    rung.clear()
    with django_capture_on_commit_callbacks(execute=True):
        reply = admin("POST", f"jobs/{job.pk}:retry")
    body = reply.json()
    assert (reply.status_code, body["state"]) == (202, "QUEUED"), body
    assert (body["error"], body["finished_at"], body["progress"]["done"]) == (
        None,
        None,
        0,
    )
    assert rung == [job.pk]
    job = finish(job)
    assert job.state == jobs.SUCCEEDED, job.error_message
    events = job.events.values_list("event", "actor")
    assert ("retry", "root") in events
    assert len(job.report["steps"]) > 3 if kind == "test" else job.done == 1


def test_a_cancelled_one_is_retried_although_cancel_was_asked(source, admin) -> None:
    job = services.start_discovery(source.datasource, by="ann")
    admin("POST", f"jobs/{job.pk}:cancel")
    assert admin("POST", f"jobs/{job.pk}:retry").status_code == 202
    assert finish(job).state == jobs.SUCCEEDED


def test_it_begins_anew_and_takes_nothing_for_vanished(source, monkeypatch) -> None:
    """The first try saw page one, then a whole discovery ran, then comes the retry."""
    monkeypatch.setattr(services, "PAGE_TABLES", 10)
    source.run(*(f"CREATE TABLE t{n:02} (a int)" for n in range(25)))
    source.grant_all()
    job = services.start_discovery(source.datasource, by="ann")
    pages.advance(job.pk)
    Job.objects.filter(pk=job.pk).update(cancel_requested="cancel")
    assert finish(job).done == 10
    discover(source.datasource)
    job = finish(again.retry(job.pk, by="ann"))
    assert (job.state, job.done, job.report["vanished"]) == (jobs.SUCCEEDED, 25, 0)
    assert not Table.objects.filter(status="VANISHED").exists()


def test_what_is_not_retried(failed, admin) -> None:
    source = Datasource.objects.get(pk=failed.subject_id)
    other = services.start_discovery(source, by="ann")
    reply = admin("POST", f"jobs/{failed.pk}:retry")
    problem(reply, 409, "already_queued")
    finish(other)
    with pytest.raises(IllegalTransition):
        again.retry(other.pk, by="ann")
    assert admin("POST", f"jobs/{other.pk}:retry").status_code == 409
    source.delete()
    with pytest.raises(InvalidRequest, match="was removed"):
        again.retry(failed.pk, by="ann")


def test_two_waiting_ones_that_lose_the_race(failed, monkeypatch) -> None:
    """The other was started between the look and the move."""
    source = Datasource.objects.get(pk=failed.subject_id)
    real = again._locked

    def late(job_id):
        job = real(job_id)
        services._new(source, "discover", by="bob", payload={})
        return job

    monkeypatch.setattr(again, "_locked", late)
    with pytest.raises(StaleState, match="waits or runs already"):
        again.retry(failed.pk, by="ann")


def test_retry_wants_operate_on_the_source(failed, ann) -> None:
    Datasource.objects.filter(pk=failed.subject_id).update(name="shop")
    for held, status in [(None, 404), ("discover", 403), ("operate", 202)]:
        grants_now(held)
        assert ann("POST", f"jobs/{failed.pk}:retry").status_code == status, held


def test_the_page_of_a_failed_discovery_offers_it(failed, settings) -> None:
    from django.contrib.auth.models import User
    from django.test import Client

    settings.STATIC_ROOT.mkdir(exist_ok=True)
    client = Client()
    client.force_login(
        User.objects.create_superuser("root"),
        backend="catalog.access.backend.SluiceBackend",
    )
    assert 'id="job-retry"' in client.get(f"/jobs/{failed.pk}").content.decode()
    client.post(f"/jobs/{failed.pk}/retry")
    failed.refresh_from_db()
    assert failed.state == jobs.QUEUED
