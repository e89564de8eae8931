"""Whichever door is used, the audit says the same; what it cannot say does not happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.models import AuditEntry
from core.models import Job
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_health import GROUP, OLD, timeline_of
from tests.integration.ingest.test_resize import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def table(world) -> int:
    world.onboard("orders")
    world.until_live("orders")
    base = Path(world.lake("orders").path)
    (base / f"{GROUP}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    (timeline_of(world) / f"{OLD}.compaction.inflight").touch()
    world.launcher.stop()  # what is asked for waits
    return world.lake("orders").pk


# the page's name, REST's verb, what is asked for on the page and over REST
ASKED = [
    ("sync", "sync", {}, {}),
    ("verify", "verify", {}, {}),
    ("compact", "compact", {}, {}),
    ("unschedule-compaction", "unschedule-compaction", *({"instant": OLD},) * 2),
    ("duplicates", "deduplicate", {}, {"dry_run": True}),
    ("resize", "resize", {"buckets": "4"}, {"buckets": 4}),
    ("savepoint", "savepoint", {}, {}),
    ("pause", "pause", {}, {}),
    ("resync", "resync", {"confirm": "orders"}, {}),
    ("remove", "remove", {"confirm": "orders", "data": "drop"}, {"data": "drop"}),
]


def test_both_doors_say_the_same(world, admin, table, django_user_model) -> None:
    client = signed_in(django_user_model)
    for name, verb, form, body in ASKED[:-2]:
        before = set(Job.objects.values_list("pk", flat=True))
        assert client.post(f"/tables/{table}/{name}", form).status_code == 302, name
        assert admin("POST", f"tables/{table}{path_of(verb)}", body).status_code == 202
        page, rest = AuditEntry.objects.filter(action=f"table.{verb}").order_by("id")
        assert (page.door, rest.door) == ("web", "rest")
        assert page.facts == rest.facts, name
        # what waits already is what is asked for
        new = Job.objects.exclude(pk__in=before)
        wanted = [] if verb == "pause" else [page.facts["job"]]
        assert [str(job.pk) for job in new] == wanted
        new.delete()
    facts = AuditEntry.objects.filter(action="table.deduplicate").last().facts
    assert facts["dry_run"] is True
    assert AuditEntry.objects.filter(action="table.resize").last().facts["buckets"] == 4


def path_of(verb: str) -> str:
    return "/savepoints" if verb == "savepoint" else f":{verb}"


def test_nothing_happens_unaudited(
    world, admin, table, django_user_model, monkeypatch
) -> None:
    def fail(*given: object, **facts: object) -> None:
        raise ConnectionError("the audit cannot be written")

    before = set(Job.objects.values_list("pk", "state"))
    monkeypatch.setattr("catalog.access.audit.record", fail)
    client = signed_in(django_user_model)
    client.raise_request_exception = False
    for name, verb, form, body in ASKED:
        said = admin("POST", f"tables/{table}{path_of(verb)}", body)
        assert said.status_code == 500, verb
        assert client.post(f"/tables/{table}/{name}", form).status_code == 500, name
    assert set(Job.objects.values_list("pk", "state")) == before
    assert world.pipeline("orders").state == "LIVE"
