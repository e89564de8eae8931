"""Verification as a job: REST, its page, the command's exit codes, its ends."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from catalog.models import AuditEntry
from config.management.commands import verify as command
from ingest.lake.commits import read_lake_table
from ingest.maintenance import repair_job
from ingest.maintenance.verdict import Comparison, facts_of
from ingest.pipelines import table_commands
from tests.doubles.launcher import Fault
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_alerts import opened
from tests.integration.ingest.test_resize import commit
from tests.integration.ingest.test_rest import grant

pytestmark = pytest.mark.django_db

KEYS = {"missing": ["CANARY-1", "CANARY-2"], "extra": ["<b>3</b>"]}
DIFFERENT = facts_of(
    Comparison(12, 11, missing=2, extra=1), keys=KEYS, instant="I", position="P"
)
REPAIRABLE = DIFFERENT | {"repair": {"chunks": 2, "of": 5}}
EQUAL = facts_of(Comparison(12, 12), keys={}, instant="I", position="P")


@pytest.fixture
def table(world: Any) -> int:
    world.live("orders")
    return world.lake("orders").pk


def done(world: Any, admin: Any, table: int, facts: dict[str, Any]) -> dict[str, Any]:
    """The body of a verification that ended with these facts."""
    world.launcher.facts["verify"] = facts
    reply = admin("POST", f"tables/{table}:verify")
    assert reply.status_code == 202
    assert reply["Location"] == f"/api/v1/jobs/{reply.json()['id']}"
    world.until(lambda: world.jobs("verify")[-1].state == "SUCCEEDED")
    return admin("GET", f"jobs/{reply.json()['id']}").json()


def test_it_is_a_job_of_the_maintenance_lane(world, admin, table) -> None:
    body = done(world, admin, table, EQUAL)
    assert (body["kind"], body["lane"]) == ("verify", "verify")
    assert body["facts"]["verdict"] == "equal"
    spec = next(s for s in world.launcher.submitted if s.kind == "verify")
    assert spec.verify.position == world.pipeline("orders").position
    assert spec.source is not None
    assert spec.epoch == 0
    assert spec.fence.path.endswith(".service")
    entry = AuditEntry.objects.get(action="table.verify")
    assert entry.facts["job"] == body["id"]


def test_what_it_finds_is_previewed_and_repaired(
    world, admin, table, django_user_model
) -> None:
    verb = f"tables/{table}:repair"
    problem(admin("POST", verb, {"dry_run": True}), 400, "nothing_to_do")
    done(world, admin, table, EQUAL)
    problem(admin("POST", verb), 400, "nothing_to_do")
    done(world, admin, table, DIFFERENT)
    problem(admin("POST", verb), 400, "not_repairable")
    job = done(world, admin, table, REPAIRABLE)
    assert opened() == ["verification_mismatch"]
    told = admin("POST", verb, {"dry_run": True}).json()
    assert told["repair"] == {"chunks": 2, "of": 5, "written": 2, "deleted": 1}
    assert "2 of 5 parts" in told["will"][0]
    client = Client()
    root = django_user_model.objects.filter(is_superuser=True).first()
    client.force_login(root, backend="catalog.access.backend.SluiceBackend")
    link = f'href="/tables/{table}/repair"'
    assert link in client.get(f"/tables/{table}").content.decode()
    world.launcher.facts["repair"] = {"action": "repair", "written": 2, "deleted": 1}
    assert client.post(f"/tables/{table}/repair").status_code == 302
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    work = next(s for s in world.launcher.submitted if s.kind == "repair").repair
    assert (work.verification, work.stream) == (job["id"], "")
    assert AuditEntry.objects.filter(action="table.repair").count() == 1
    page = client.get(f"/jobs/{world.jobs('repair')[-1].pk}").content.decode()
    assert "2 rows written, 1 deleted" in page
    # what was found is void, and its alert is over
    assert link not in client.get(f"/tables/{table}").content.decode()
    assert admin("GET", f"tables/{table}/health").json()["verification"]["job"] is None
    assert opened() == []
    problem(admin("POST", verb), 400, "nothing_to_do")


def test_a_repair_that_is_cancelled_behind_its_commit_is_done(
    world, admin, table
) -> None:
    done(world, admin, table, REPAIRABLE)
    world.fail_with("repair", Fault.HANG)
    verb = f"tables/{table}:repair"
    admin("POST", verb)
    world.until(lambda: world.jobs("repair")[-1].state == "RUNNING")
    (job,) = world.jobs("repair")
    commit(world, buckets=1, run=str(job.pk))
    # as the timeline tells it of a driver that is lost
    left = repair_job.left_by(job, read_lake_table(world.lake("orders").path))
    assert left.facts is not None
    assert left.facts["action"] == "repair"
    admin("POST", f"jobs/{job.pk}:cancel")
    world.until(lambda: world.jobs("repair")[-1].state == "CANCELLED")
    problem(admin("POST", verb), 400, "nothing_to_do")


def test_two_that_wait_are_one(world, admin, table) -> None:
    world.launcher.stop()
    first, second = (admin("POST", f"tables/{table}:verify").json() for _ in range(2))
    assert first["id"] == second["id"]


def test_keys_are_for_who_may_read_rows(world, admin, person, table) -> None:
    job = done(world, admin, table, DIFFERENT)
    assert job["facts"]["keys"]["missing"] == KEYS["missing"]
    ann = person("ann2")
    grant(admin, "user:ann2", "manage", "lake.shop.orders")
    seen = ann("GET", f"jobs/{job['id']}")
    assert seen.json()["facts"]["missing"] == 2
    assert "CANARY" not in seen.content.decode()
    grant(admin, "user:ann2", "select", "lake.shop.orders")
    assert "CANARY-1" in ann("GET", f"jobs/{job['id']}").content.decode()


def test_its_page_says_it_in_words(world, admin, table, django_user_model) -> None:
    job = done(world, admin, table, DIFFERENT)
    root = django_user_model.objects.filter(is_superuser=True).first()
    client = Client()
    client.force_login(root, backend="catalog.access.backend.SluiceBackend")
    text = client.get(f"/jobs/{job['id']}").content.decode()
    assert "2 rows missing in the lake" in text
    assert "CANARY-1" in text
    assert "<b>3</b>" not in text


def test_what_becomes_of_it_does_not_touch_the_table(world, admin, table) -> None:
    world.fail_with("verify", Fault.TERMINAL, Fault.INVALID_REQUEST, Fault.HANG)
    for end in ("FAILED", "FAILED"):
        job = admin("POST", f"tables/{table}:verify").json()["id"]
        world.until(lambda: world.jobs("verify")[-1].is_finished)
        assert world.jobs("verify")[-1].state == end
        assert world.pipeline("orders").state == "LIVE"
    assert admin("POST", f"jobs/{job}:retry").status_code == 202
    # one of them is enough, however many failed
    other = world.jobs("verify")[0].pk
    problem(admin("POST", f"jobs/{other}:retry"), 409, "already_queued")
    world.until(lambda: world.jobs("verify")[-1].state == "RUNNING")
    assert admin("POST", f"jobs/{job}:cancel").status_code == 202
    world.until(lambda: world.jobs("verify")[-1].state == "CANCELLED")
    assert world.pipeline("orders").state == "LIVE"


def test_it_runs_again_after_its_driver_died(world, admin, table) -> None:
    world.fail_with("verify", Fault.DIE_RUNNING)
    done(world, admin, table, EQUAL)
    assert world.jobs("verify")[0].attempts == 2
    assert world.pipeline("orders").state == "LIVE"


def test_a_removal_ends_what_waits(world, admin, table) -> None:
    world.fail_with("verify", Fault.HANG)
    admin("POST", f"tables/{table}:verify")
    world.until(lambda: world.jobs("verify")[0].state == "RUNNING")
    admin("POST", f"tables/{table}:verify")
    admin("POST", f"tables/{table}:remove", {"data": "keep"})
    world.until(lambda: all(j.state == "CANCELLED" for j in world.jobs("verify")))


def test_not_before_its_load(world, admin) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    reply = admin("POST", f"tables/{world.lake('orders').pk}:verify")
    assert (reply.status_code, reply.json()["code"]) == (400, "not_now")


# ------------------------------------------------------------------- the command


def run_command(world: Any, monkeypatch: Any, *arguments: str) -> tuple[int, str, str]:
    """(exit code, output, errors); while it waits, the world moves."""
    monkeypatch.setattr(command.time, "sleep", lambda seconds: world.steps(1))
    out, errors = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify", *arguments, stdout=out, stderr=errors)
    return int(ended.value.code or 0), out.getvalue(), errors.getvalue()


def test_exit_code_0_is_equal(world, table, monkeypatch) -> None:
    world.launcher.facts["verify"] = EQUAL
    code, out, _ = run_command(world, monkeypatch, "shop.orders")
    assert code == 0
    assert "lake.shop.orders: Equal: 12 rows on both sides." in out


def test_exit_code_1_lists_keys(world, table, monkeypatch) -> None:
    world.launcher.facts["verify"] = DIFFERENT
    code, out, _ = run_command(world, monkeypatch, "lake.shop.orders")
    assert code == 1
    assert "missing in the lake: 2\n  CANARY-1\n  CANARY-2\n" in out
    assert "only in the lake: 1\n" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shop.nothing"], "there is no table"),
        (["no name"], "does not name a table"),
        (["shop.public.orders"], "is a table of a source"),
        (["shop.orders", "--wait-seconds", "0"], "goes on"),
    ],
)
def test_exit_code_2_could_not_decide(
    world, table, monkeypatch, arguments, words
) -> None:
    code, out, errors = run_command(world, monkeypatch, *arguments)
    assert (code, out) == (2, "")
    assert words in errors


@pytest.mark.parametrize("fault", [Fault.TERMINAL, Fault.INVALID_REQUEST])
def test_a_failed_job_is_no_verdict(world, table, monkeypatch, fault) -> None:
    world.fail_with("verify", fault)
    code, out, errors = run_command(world, monkeypatch, "shop.orders")
    assert (code, out) == (2, "")
    assert "as configured" in errors


def test_a_surprise_is_not_taken_for_a_difference(world, table, monkeypatch) -> None:
    monkeypatch.setattr(table_commands, "start_verify", None)
    code, _, errors = run_command(world, monkeypatch, "shop.orders")
    assert code == 2
    assert "TypeError" in errors
