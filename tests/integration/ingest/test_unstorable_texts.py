"""What PostgreSQL has no place for, in what a driver says, holds up nobody's job."""

from __future__ import annotations

import pytest

from core.json_values import storable
from core.models import JobLog
from tests.doubles.launcher import Fault

pytestmark = pytest.mark.django_db


def test_values_keep_their_shape() -> None:
    said = {"a\x00": ["\ud800", 1, None, {"b": ("x\x00y", True)}]}
    found = storable(said)
    assert found == {"a\\x00": ["\\ud800", 1, None, {"b": ["x\\x00y", True]}]}


def test_a_line_of_a_log_with_nul_is_written_and_jobs_end(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: bool(world.jobs("snapshot")))
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    job = world.jobs("snapshot")[0]
    for text in ("key 'a\x00b' is there twice", "half \ud800 of a letter", "plain"):
        world.launcher._say("log", job_id=str(job.pk), level="warning", message=text)
    world.launcher._say("log", job_id="no job", level="info", message="stray")
    progress = {"job_id": str(job.pk), "attempt": job.attempts, "phase": "a\x00"}
    world.launcher._say("heartbeat", jobs=[progress])
    report = {"job_id": str(job.pk), "attempt": job.attempts, "outcome": "terminal"}
    report["error"] = {"code": "bad", "message": "value 'a\x00b'", "hint": ""}
    world.launcher._say("report", report=report | {"v": 1})
    world.steps(3)
    job.refresh_from_db()
    lines = set(JobLog.objects.filter(job=job).values_list("message", flat=True))
    assert {
        "key 'a\\x00b' is there twice",
        "half \\ud800 of a letter",
        "plain",
    } <= lines
    assert (job.state, job.error_message) == ("FAILED", "value 'a\\x00b'")
