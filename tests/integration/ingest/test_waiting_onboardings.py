"""Onboardings that wait for a discovery, planned by two beats at once."""

from __future__ import annotations

import threading

import pytest
from django.db import connections
from django.utils import timezone

from ingest.models import Onboarding, Pipeline
from ingest.pipelines import deferred_onboardings, onboarding
from tests.integration.ingest.world import make_source, make_tables
from tests.waiting import LIMIT_SECONDS


@pytest.mark.django_db(transaction=True)
def test_two_beats_plan_a_request_once(transactional_db, monkeypatch, settings) -> None:
    source = make_source()
    make_tables(source, ["orders"])
    body = {"datasource": "shop", "tables": {"public.orders": {}}}
    row = deferred_onboardings.wait_for_discovery(source, body)
    source.discovered_at = timezone.now()
    source.save()
    begin, others = deferred_onboardings.begin, [True]

    def elsewhere() -> None:
        deferred_onboardings.plan_waiting()
        connections.close_all()

    def begin_late(*args, **more):
        if others:
            others.clear()
            beat = threading.Thread(target=elsewhere)
            beat.start()
            beat.join(LIMIT_SECONDS)
            assert not beat.is_alive()
        return begin(*args, **more)

    monkeypatch.setattr(deferred_onboardings, "begin", begin_late)
    deferred_onboardings.plan_waiting()
    row = Onboarding.objects.get()
    assert "waits" not in row.request
    assert Pipeline.objects.get().onboarding_id == row.pk


def test_a_discarded_request_waits_no_more(db) -> None:
    source = make_source()
    make_tables(source, ["orders"])
    body = {"datasource": "shop", "tables": {"public.orders": {}}}
    row = deferred_onboardings.wait_for_discovery(source, body)
    assert onboarding.discard_onboarding(row, actor="ann") == 0
    source.discovered_at = timezone.now()
    source.save()
    assert deferred_onboardings.plan_waiting() == 0
    assert not Pipeline.objects.exists()
