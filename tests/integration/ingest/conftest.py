"""A source in the catalog, a lake in a directory, a driver host over the fake."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.ingest.world import World


@pytest.fixture(autouse=True)
def _quick_lake(settings, tmp_path, monkeypatch):
    from ingest.jobs import reconcile

    settings.SLUICE_LAKE_URI = str(tmp_path / "lake")
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"  # nobody is there
    # the test's PostgreSQL may be seconds old
    monkeypatch.setattr(reconcile, "GRACE_SECONDS", 0)
    monkeypatch.setattr("ingest.jobs.isolation.GLITCH_SECONDS", 0)
    monkeypatch.setattr("core.jobs.moves.pause_after", lambda job, failures: 0.0)
    monkeypatch.setattr("ingest.jobs.reconcile.wait_after", lambda failures: 0.0)


@pytest.fixture
def world(db: Any) -> World:
    from tests.integration.ingest.world import World

    return World.make(clock=itertools.count(1.0).__next__)
