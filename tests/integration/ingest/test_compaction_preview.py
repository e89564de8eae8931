"""`:compact` says first what it would merge and where it runs: by REST and on its page."""

from __future__ import annotations

import re
from pathlib import Path

import fastavro
import pytest

from frontend.reading.health import GO_ON
from ingest.api import health_replies
from tests.doubles.launcher import Fault
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.test_health import GROUP, LATER, OLD, see, timeline_of
from tests.integration.ingest.test_resize import signed_in

pytestmark = pytest.mark.django_db


def write_files(world) -> None:
    """A base file and a log file behind it."""
    base = Path(world.lake("orders").path)
    (base / f"{GROUP}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    instant = world.lake("orders").last_commit_instant
    (base / f".{GROUP}_{instant}.log.1_0-9-13").write_bytes(b"x" * 7)


def live(world) -> int:
    world.onboard("orders")
    world.until_live("orders")
    write_files(world)
    return world.lake("orders").pk


def test_a_dry_run_tells_what_is_merged_and_starts_nothing(
    world, admin, django_user_model
) -> None:
    table = live(world)
    dry = admin("POST", f"tables/{table}:compact", {"dry_run": True})
    assert dry.status_code == 200, dry.content
    compare(health_replies.RepairPreview(), dry.json())
    told = dry.json()["compaction"]
    assert (told["groups_total"], told["base_bytes"], told["log_bytes"]) == (1, 70, 7)
    assert told["groups"][0]["file_id"] == GROUP
    assert told["instants"] == []
    assert "It runs in the driver that all jobs share" in dry.json()["will"]
    own = {"driver": "own", "dry_run": True}
    problem(admin("POST", f"tables/{table}:compact", own), 400, "lock_not_shared")
    odd = {"dry_run": 1}
    problem(admin("POST", f"tables/{table}:compact", odd), 400, "invalid_request")
    assert not world.jobs("compact")

    client = signed_in(django_user_model)
    page = client.get(f"/tables/{table}/compact").content.decode()
    assert "1 log file of 7 B in 1 of 1 file group are merged" in page
    assert "Runs in the shared driver: only that driver holds this table" in page
    assert 'name="driver"' not in page

    (timeline_of(world) / f"{OLD}.compaction.inflight").touch()
    dry = admin("POST", f"tables/{table}:compact", {"dry_run": True})
    problem(dry, 400, "plan_unreadable")
    page = client.get(f"/tables/{table}/compact").content.decode()
    assert "unschedule it first" in page


def plan_begun(world) -> None:
    """A compaction of that file group whose executor died."""
    text, metrics = ["null", "string"], {"type": "map", "values": "double"}
    fields = {"partitionPath": text, "fileId": "string", "metrics": metrics}
    files = {"type": "array", "items": "string"}
    operation = {
        "type": "record",
        "name": "Operation",
        "fields": [
            *({"name": name, "type": kind} for name, kind in fields.items()),
            {"name": "deltaFilePaths", "type": files},
        ],
    }
    operations = {"type": "array", "items": operation}
    schema = {
        "type": "record",
        "name": "Plan",
        "fields": [{"name": "operations", "type": operations}],
    }
    one = {
        "partitionPath": "",
        "fileId": GROUP,
        "metrics": {"TOTAL_LOG_FILES_SIZE": 7.0},
        "deltaFilePaths": ["a.log"],
    }
    with (timeline_of(world) / f"{LATER}.compaction.requested").open("wb") as out:
        fastavro.writer(out, schema, [{"operations": [one]}])
    (timeline_of(world) / f"{LATER}.compaction.inflight").touch()


def test_one_that_was_begun_is_gone_on_with(world, admin, django_user_model) -> None:
    table = live(world)
    plan_begun(world)
    see(world)
    client = signed_in(django_user_model)
    page = client.get(f"/tables/{table}/health").content.decode()
    for way in ("compact", "rollback", "unschedule-compaction"):
        assert f"/tables/{table}/{way}?instant={LATER}" in page, way
    assert GO_ON.does in page
    form = client.get(f"/tables/{table}/compact?instant={LATER}").content.decode()
    assert f"Compaction {LATER} was begun and not ended" in form
    dry = admin("POST", f"tables/{table}:compact", {"dry_run": True}).json()
    assert dry["compaction"]["instants"] == [LATER]
    # what is said is done, though no job ever told of this plan
    assert client.post(f"/tables/{table}/compact").status_code == 302
    (job,) = world.jobs("compact")
    assert job.payload["instants"] == [LATER]


def test_the_page_asks_whether_to_plan_anew(world, admin, django_user_model) -> None:
    table = live(world)
    plan_begun(world)
    client = signed_in(django_user_model)
    address = f"/tables/{table}/unschedule-compaction"
    anew = "Then a new compaction is planned"
    asked = {"instant": LATER}
    form = client.get(address, asked).content.decode()
    assert 'name="replan"' in form
    assert anew not in form
    form = client.get(address, asked | {"replan": "1"}).content.decode()
    assert anew in form
    assert re.search(r'name="replan"[^>]* checked', form)
    assert client.post(address, asked | {"replan": "1"}).status_code == 302
    (job,) = world.jobs("repair")
    wanted = job.payload["repair"]
    assert (wanted["instant"], wanted["replan"]) == (LATER, True)
    assert "replan" not in client.get(f"/tables/{table}/rollback").content.decode()


def test_a_driver_of_its_own_is_asked_for_on_the_page(
    world, admin, settings, django_user_model
) -> None:
    settings.SLUICE_LAKE_LOCK = "zk:2181/sluice"
    table = live(world)
    client = signed_in(django_user_model)
    page = client.get(f"/tables/{table}/compact").content.decode()
    assert "By the table's policy: the shared driver" in page
    assert 'name="memory"' in page
    own = {"driver": "own", "memory": "1g", "cores": "2"}
    page = client.get(f"/tables/{table}/compact", own).content.decode()
    assert "a driver of its own with 1g of memory and 2 cores" in page
    page = client.get(f"/tables/{table}/compact", own | {"memory": "9999g"})
    assert "Memory may be 4g at most" in page.content.decode()
    world.fail_with("compact", Fault.HANG)
    # what is typed beside another choice says nothing
    page = client.get(f"/tables/{table}/compact", own | {"driver": "shared"})
    assert "the driver that all jobs share" in page.content.decode()
    refused = client.post(f"/tables/{table}/compact", own | {"memory": "9999g"})
    assert "Memory may be 4g at most" in refused.content.decode()
    assert not world.jobs("compact")
    assert client.post(f"/tables/{table}/compact", own).status_code == 302
    (job,) = world.jobs("compact")
    assert job.payload["driver"] == {"memory": "1g", "cores": 2}
    policy = {"compact_driver": {"memory": "1g", "cores": 1}}
    assert admin("PATCH", f"tables/{table}/policy", policy).status_code == 200
    page = client.get(f"/tables/{table}/compact").content.decode()
    assert "a dedicated driver with 1g and 1 core" in page
