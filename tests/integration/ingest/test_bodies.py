"""Verbs refuse what they would not read: nobody is taken for asking something else."""

from __future__ import annotations

import pytest

from core.models import Job
from ingest.api import health_replies
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.test_narrowing import alter

pytestmark = pytest.mark.django_db

TABLE = (
    "sync", "resync", "verify", "pause", "resume", "compact", "remove", "rollback",
    "unschedule-compaction", "deduplicate", "clean", "repair", "restore", "drop-metadata-table",
)  # fmt: skip


@pytest.fixture
def table(world) -> int:
    world.live("orders")
    return world.lake("orders").pk


def test_a_body_that_nobody_reads_is_refused(world, admin, table) -> None:
    job = world.jobs("snapshot")[0].pk
    onboarding = world.pipeline("orders").onboarding_id
    verbs = [f"tables/{table}:{verb}" for verb in TABLE]
    verbs += [f"tables/{table}/savepoints", f"jobs/{job}:cancel", f"jobs/{job}:retry"]
    verbs += [f"onboardings/{onboarding}:{verb}" for verb in ("approve", "discard")]
    verbs += ["datasources/shop:test", "datasources/shop:discover"]
    before = Job.objects.count()
    for verb in verbs:
        odd = admin("POST", verb, {"dry_runs": True})
        assert (odd.status_code, odd.json()["code"]) == (400, "unknown_field"), verb
        for body in ([], [{"dry_run": True}], "dry_run", True):
            assert admin("POST", verb, body).status_code == 400, (verb, body)
    for verb in ("sync", "verify", "pause", "resume"):
        said = admin("POST", f"tables/{table}:{verb}", {"dry_run": True})
        problem(said, 400, "unknown_field")
    for verb in ("remove", "resync", "rollback", "clean", "compact"):
        said = admin("POST", f"tables/{table}:{verb}", {"dry_run": "true"})
        problem(said, 400, "invalid_request")
    said = admin("POST", f"tables/{table}:rollback", {"instant": 0})
    problem(said, 400, "invalid_request")
    assert Job.objects.count() == before
    assert world.pipeline("orders").state == "LIVE"
    # nothing, an empty object and null ask for the same
    for body in (None, {}, b"null"):
        assert admin("POST", f"tables/{table}:verify", body).status_code == 202


def test_a_resync_is_previewed_like_every_repair(world, admin, table) -> None:
    verb = f"tables/{table}:resync"
    dry = admin("POST", verb, {"dry_run": True})
    assert dry.status_code == 200, dry.content
    compare(health_replies.RepairPreview(), dry.json())
    assert dry.json()["action"] == "resync"
    assert "The whole table is read from the source again" in dry.json()["will"]
    alter(world, name=None)
    (*_, narrower) = admin("POST", verb, {"dry_run": True}).json()["will"]
    assert narrower.endswith("no more: name")
    columns = {c["name"] for c in admin("GET", f"tables/{table}").json()["columns"]}
    assert "name" in columns
    alter(world, id=None)
    problem(admin("POST", verb, {"dry_run": True}), 400, "source_altered")
    assert not world.jobs("resync")
    assert world.pipeline("orders").state == "LIVE"
    admin("POST", f"tables/{table}:pause")
    problem(admin("POST", verb, {"dry_run": True}), 400, "not_now")
    problem(admin("POST", verb), 400, "not_now")


def test_only_a_person_says_that_a_source_may_be_empty(world, admin, table) -> None:
    verb = f"tables/{table}:resync"
    for body, accepts in (({}, False), ({"accept_empty": True}, True)):
        assert admin("POST", verb, body).status_code == 202
        world.until(lambda: world.jobs("resync")[-1].state == "SUCCEEDED")
        *_, asked = (s for s in world.launcher.submitted if s.kind == "resync")
        assert asked.snapshot.accept_empty is accepts
        world.until_live("orders")
    assert admin("POST", verb, {"accept_empty": "yes"}).status_code == 400
