"""A source and a lake table may have one number: their jobs have nothing in common."""

from __future__ import annotations

import pytest

from core.jobs import RUNNING
from core.models import Job
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def namesake(world: World) -> Job:
    """A discovery under way of the source whose number is that of lake table orders."""
    world.onboard("orders")
    world.until_live("orders")
    subject = str(world.lake("orders").pk)
    return Job.objects.create(
        kind="discover", subject="hr", subject_id=subject, state=RUNNING
    )


def test_a_tables_answer_tells_no_job_of_a_source(world, admin, namesake):
    table = world.lake("orders").pk
    body = admin("POST", f"tables/{table}:pause").json()
    assert "hr" not in [job["subject"] for job in body["jobs"]]


def test_a_removal_lets_the_sources_job_be_and_does_not_wait_for_it(
    world, admin, namesake
):
    table = world.lake("orders").pk
    answer = admin("POST", f"tables/{table}:remove")
    assert answer.status_code == 202, answer.content
    world.until(lambda: world.pipeline("orders").state == "RETIRED")
    namesake.refresh_from_db()
    assert (namesake.state, namesake.cancel_requested) == (RUNNING, "")
