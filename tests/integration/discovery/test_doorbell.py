"""Discovery jobs and their messages: rung by the tick, by Redis, or not at all."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
import redis
from django.utils import timezone

from catalog import dispatch as dispatch_module
from catalog import tasks
from catalog.discovery import services
from catalog.models import Datasource
from config.celery import app
from core import dispatch as doorbell
from core import jobs
from core.jobs import pages
from core.models import Job
from core.retries import CircuitBreaker
from tests.integration.discovery.support import finish

pytestmark = pytest.mark.django_db
ring_for_real = dispatch_module.notify_worker


def test_the_tick_rings_for_jobs_nobody_answers_for(source, rung, monkeypatch) -> None:
    job = services.start_discovery(source.datasource, by="ann")
    now = timezone.now()
    clock = SimpleNamespace(now=lambda: now)
    monkeypatch.setattr(pages, "timezone", clock)
    assert pages.notify_due() == 1
    assert pages.notify_due() == 0  # once in a while, not each tick
    now += timedelta(seconds=pages.SILENT_SECONDS)
    assert pages.notify_due() == 1
    Job.objects.filter(pk=job.pk).update(not_before=now + timedelta(seconds=60))
    assert list(pages.due(now)) == []
    assert pages.due(now + timedelta(seconds=61)).get() == job
    Job.objects.filter(pk=job.pk).update(
        not_before=None, state=jobs.RUNNING, progress_at=now
    )
    assert list(pages.due(now + timedelta(seconds=9))) == []
    assert pages.due(now + timedelta(seconds=11)).get() == job
    assert rung == [job.pk, job.pk]


def test_those_that_nobody_answers_for_hide_no_later_one(
    source, rung, monkeypatch
) -> None:
    monkeypatch.setattr(pages, "MOST_NOTIFIED", 2)
    started = [
        start(source.datasource, by="ann")
        for start in (services.start_test, services.start_discovery)
    ]
    other = Datasource.objects.create(name="other", kind=source.datasource.kind)
    started += [services.start_discovery(other, by="ann")]
    for _ in range(2):
        pages.notify_due()
    assert rung == [job.pk for job in started]


def test_the_bell_reaches_a_worker_through_redis(
    source, redis_url, settings, monkeypatch
):
    settings.CELERY_BROKER_URL = redis_url
    monkeypatch.setattr(doorbell, "_breaker", CircuitBreaker(10))
    job = services.start_discovery(source.datasource, by="ann")
    assert ring_for_real(job.pk)
    client = redis.Redis.from_url(redis_url)
    assert client.llen("celery") == 1
    message = client.lpop("celery").decode()
    client.close()
    assert dispatch_module.ADVANCE in message
    assert dispatch_module.ADVANCE in app.tasks
    tasks.advance_discovery_task(str(job.pk))
    job.refresh_from_db()
    assert job.state == jobs.SUCCEEDED


def test_a_broker_that_is_away_fails_nothing(source, settings, monkeypatch) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(doorbell, "_breaker", CircuitBreaker(10))
    job = services.start_discovery(source.datasource, by="ann")
    assert ring_for_real(job.pk) is False
    assert ring_for_real(job.pk) is False
    monkeypatch.setattr(dispatch_module, "notify_worker", ring_for_real)
    assert finish(job).state == jobs.SUCCEEDED
