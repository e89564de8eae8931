"""The list of a table's jobs is its own, and a repair leads back to what it repaired."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import pytest
from django.utils import timezone

from core.models import Job
from ingest.alerts.stalled import compare_stalled
from ingest.contract.job import RepairWork

pytestmark = pytest.mark.django_db


def make_job(kind: str, subject: str, number: int, **payload: object) -> Job:
    return Job.objects.create(
        kind=kind,
        subject=subject,
        subject_id=str(number),
        exclusive_key=f"{kind}:{number}",
        state="SUCCEEDED",
        payload={"table": number, **payload},
    )


def test_jobs_of_a_table_are_no_jobs_of_a_source(world, browse):
    table = world.lake_tables["orders"]
    other = make_job("discover", "shop", table.pk)
    client = browse("root")
    assert f"/jobs/{other.pk}" in client.get("/jobs").content.decode()
    text = client.get(f"/tables/{table.pk}/activity").content.decode()
    assert f"/jobs/{other.pk}" not in text
    assert f"/jobs/{world.jobs['queued'].pk}" in text


@pytest.mark.parametrize("kind", ["repair", "compact", "sync"])
def test_a_repair_leads_to_the_tables_health(world, browse, kind):
    table = world.lake_tables["orders"]
    job = make_job(kind, str(table), table.pk)
    head = browse("root").get(f"/jobs/{job.pk}").content.decode()
    head = head.partition('class="page-head"')[2].partition('class="stack"')[0]
    assert f'href="/tables/{table.pk}"' in head
    assert (f'href="/tables/{table.pk}/health"' in head) == (kind != "sync")


@pytest.mark.parametrize(
    ("repair", "place"),
    [
        (
            RepairWork("restore", "20260101000000000"),
            "restore?instant=20260101000000000",
        ),
        (RepairWork("unschedule", replan=True), "unschedule-compaction?replan=1"),
        (RepairWork("resize", buckets=16), "resize?buckets=16"),
        (RepairWork("deduplicate", dry_run=True), "duplicates"),
        (RepairWork("deduplicate"), "deduplicate"),
    ],
)
def test_a_repair_is_asked_for_again_by_its_preview(world, browse, repair, place):
    table = world.lake_tables["orders"]
    job = make_job("repair", str(table), table.pk, repair=asdict(repair))
    Job.objects.filter(pk=job.pk).update(state="FAILED")
    text = browse("root").get(f"/jobs/{job.pk}").content.decode()
    assert f'href="/tables/{table.pk}/{place}"' in text
    assert f"/jobs/{job.pk}/retry" not in text
    reply = browse("root").post(f"/jobs/{job.pk}/retry")
    assert reply.headers["location"] == f"/tables/{table.pk}/{place}"
    job.refresh_from_db()
    assert job.state == "FAILED"


def test_a_job_that_stands_still_says_so_on_its_page_and_on_its_tables(world, browse):
    job, table = world.jobs["running"], world.lake_tables["customers"]
    now, client = timezone.now(), browse("root")
    Job.objects.filter(pk=job.pk).update(moved_at=now, reason="waits for a lock")
    compare_stalled(now)
    pages = f"/jobs/{job.pk}", f"/tables/{table.pk}"
    for page in pages:
        assert 'id="stalled"' not in client.get(page).content.decode()
    Job.objects.filter(pk=job.pk).update(moved_at=now - timedelta(hours=1))
    compare_stalled(now)
    for page in pages:
        text = client.get(page).content.decode().partition('id="stalled"')[2]
        assert "aits for a lock" in text, page
    assert f'href="/jobs/{job.pk}">Open the job' in text
