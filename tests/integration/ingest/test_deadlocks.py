"""Requests and ends of jobs that lock the same rows in different orders."""

from __future__ import annotations

import threading

import pytest
from django.db import DatabaseError, connection, connections, transaction
from psycopg.errors import DeadlockDetected

from core.models import Job
from ingest.models import Pipeline
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.long_tests import first_then_long
from tests.waiting import LIMIT_SECONDS, wait_for

_WAITS = """SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", first_then_long("once", ""))
def test_a_pause_that_meets_the_end_of_a_job_is_done_all_the_same(
    world, admin, key
) -> None:
    """It was a 503."""
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    job, table = world.jobs("snapshot")[0].pk, world.lake("orders").pk
    has_job = threading.Event()
    errors: list[DatabaseError] = []

    def end_job() -> None:
        """Its locks. It looks for deadlocks later, so the request is rolled back,
        unless this machine stands still for seconds."""
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL deadlock_timeout = '6s'")
                Job.objects.select_for_update().get(pk=job)
                has_job.set()

                def request_waits() -> bool:
                    cursor.execute(_WAITS)
                    return bool(cursor.fetchone()[0])

                wait_for(request_waits, "the request to wait")
                Pipeline.objects.select_for_update().get(lake_table=table)
        except DatabaseError as error:
            if not isinstance(error.__cause__, DeadlockDetected):
                errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=end_job)
    thread.start()
    assert has_job.wait(LIMIT_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute("SET deadlock_timeout = '2s'")
        headers = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
        answer = admin("POST", f"tables/{table}:pause", **headers)
        cursor.execute("RESET deadlock_timeout")
    thread.join(LIMIT_SECONDS)
    assert errors == []
    assert (answer.status_code, answer.json()["status"]) == (202, "PAUSED")
    assert Job.objects.get(pk=job).state == "CANCELLING"
