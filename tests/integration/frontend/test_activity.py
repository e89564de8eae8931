"""What happened, of all tables and of one: what is shown, hidden, counted, and to whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from catalog.access import audit
from catalog.access.principals import principal_of
from catalog.models import SchemaVersion
from core.jobs import SUCCEEDED
from core.jobs.moves import SCHEDULE
from core.models import QUIET, Job
from frontend.reading.activity import rows_of, timeline_of
from ingest.contract.job import COMPACT, SYNC
from ingest.maintenance.health_collector import ACTOR
from ingest.models import Pipeline, PipelineEvent
from ingest.pipelines.activity import Activity
from ingest.pipelines.job_selectors import JobFilter
from tests.integration.frontend.reading import html_of

pytestmark = pytest.mark.django_db


def synced(table: Any, rows: int, **more: Any) -> Job:
    now = timezone.now()
    facts = {"rows": rows, "bytes": rows * 90, **more}
    return Job.objects.create(
        kind="sync", subject=str(table), subject_id=str(table.pk), state="SUCCEEDED",
        done=rows, unit="rows", started_at=now - timedelta(seconds=9), finished_at=now,
        report={"facts": facts, "log": "x" * 100},
    )  # fmt: skip


def compacted(table: Any, *, by: str) -> Job:
    return Job.objects.create(
        kind="compact", subject=str(table), subject_id=str(table.pk),
        state="SUCCEEDED", requested_by=by,
    )  # fmt: skip


@pytest.fixture
def eventful(world: Any) -> Any:
    """orders was paused, got a column, a grant and other settings."""
    table = world.lake_tables["orders"]
    pipeline = Pipeline.objects.get(lake_table=table)
    for event in ("fall_behind", "pause", "resume_catch_up"):
        PipelineEvent.objects.create(
            pipeline=pipeline, event=event, before="LIVE", after="PAUSED",
            actor="root", reason=f"because of {event}",
        )  # fmt: skip
    for version in (1, 2):
        SchemaVersion.objects.create(table=table, version=version, columns=[])
    audit.record("policy.change", on=str(table), actor="root", change={"schedule": 1})
    audit.record("table.sync", on=str(table), actor="root")
    return table


def test_syncs_without_changes_are_not_read_to_be_passed_over(world: Any) -> None:
    table = world.lake_tables["orders"]
    row = {"kind": "sync", "subject_id": str(table.pk), "state": "SUCCEEDED"}
    Job.objects.bulk_create([Job(**row) for _ in range(5_000)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE core_job")
    rows = JobFilter().rows(principal_of(world.admin)).exclude(QUIET)
    plan = rows.order_by("-created_at", "id")[:50].explain()
    assert "loud_jobs" in plan
    automatic = Q(kind=COMPACT, requested_by__in=(ACTOR, SCHEDULE))
    assert Q(state=SUCCEEDED) & (Q(kind=SYNC, done=0) | automatic) == QUIET


def test_what_changed_nothing_is_hidden_and_counted(world: Any, browse: Any) -> None:
    table, client = world.lake_tables["orders"], browse("root")
    position = {"from": "2026-11-21T11:29:55Z", "to": "2026-11-21T11:30:25Z"}
    quiet = [synced(table, 0) for _ in range(3)]
    quiet += [compacted(table, by=who) for who in (SCHEDULE, ACTOR)]
    asked_for = compacted(table, by="ann")
    loud = synced(table, 1234, position=position)
    for path in ("/jobs", f"/tables/{table.pk}/activity"):
        text = html_of(client.get(path))
        assert "5 automatic jobs that changed no rows are hidden." in text, path
        assert f"/jobs/{loud.pk}" in text
        assert f"/jobs/{asked_for.pk}" in text
        assert not any(f"/jobs/{job.pk}" in text for job in quiet)
        assert "1,234" in text
        assert "11:29:55 → 11:30:25" in text
        assert "111.1 kB" in text
        text = html_of(client.get(f"{path}?quiet=1"))
        assert all(f"/jobs/{job.pk}" in text for job in quiet)
        assert "Hide them" in text
    of_one_kind = html_of(client.get("/jobs?kind=compact"))
    assert all(f"/jobs/{job.pk}" in of_one_kind for job in (*quiet[3:], asked_for))
    assert "Hide them" in of_one_kind
    # one that is at work is no quiet one
    Job.objects.filter(pk=quiet[0].pk).update(state="RUNNING")
    assert f"/jobs/{quiet[0].pk}" in html_of(client.get("/jobs"))


def test_what_people_changed_is_told_beside_the_jobs(
    eventful: Any, browse: Any
) -> None:
    client = browse("root")
    told = [
        "because of pause", "resumed", "columns changed, version 2",
        "settings changed: schedule", "granted select to group:bi",
    ]  # fmt: skip
    for path in ("/jobs", "/jobs?kind=events", f"/tables/{eventful.pk}/activity"):
        text = html_of(client.get(path))
        assert [word for word in told if word not in text] == [], path
        assert "because of fall_behind" not in text
        assert text.count("because of pause") == 1
    assert "resumed" not in html_of(client.get("/jobs?kind=sync"))
    assert "resumed" not in html_of(client.get("/jobs?q=customers"))
    assert "/jobs/" not in html_of(client.get("/jobs?kind=events")).split("</thead>")[1]


def test_decisions_are_told_to_who_manages_the_table(
    eventful: Any, browse: Any
) -> None:
    for path in ("/jobs", f"/tables/{eventful.pk}/activity"):
        text = html_of(browse("ann").get(path))
        assert "because of pause" in text, path
        assert "granted" not in text
        assert "settings changed" not in text
    hidden = browse("eve").get("/jobs")
    assert "because of pause" not in html_of(hidden)


def test_a_page_of_everything_is_one_statement(
    eventful: Any, world: Any, django_assert_num_queries: Any
) -> None:
    synced(eventful, 5)
    principal = principal_of(world.admin)
    with django_assert_num_queries(1):
        entries = Activity(principal)[0:51]
    assert len({entry.of for entry in entries}) == 4
    assert [e.at for e in entries] == sorted((e.at for e in entries), reverse=True)
    both = Activity(principal)[0:4] + Activity(principal)[4:8]
    assert both == Activity(principal)[0:8]
    assert "log" not in str(entries[0].facts)
    rows = rows_of(principal, entries)
    timeline = timeline_of(rows, by_kind=False)
    assert timeline is not None
    assert "shop.orders" in [lane.title for lane in timeline.lanes]
    of_one = Activity(principal, JobFilter(table=str(eventful.pk)), eventful)[0:51]
    lanes = timeline_of(rows_of(principal, [*of_one, *of_one]), by_kind=True)
    assert lanes is not None
    assert [lane.title for lane in lanes.lanes] == ["sync"]


def test_a_job_tells_how_long_each_step_took(world: Any, browse: Any) -> None:
    job = synced(world.lake_tables["orders"], 5, instant="20261121113000123")
    assert job.started_at is not None
    for after, word in ((-9, "reading"), (1, "checking"), (3, "reading"), (4, "odd")):
        line = job.log_lines.create(level="info", message=word)
        at = job.started_at + timedelta(seconds=after)
        job.log_lines.filter(pk=line.pk).update(at=at)
    text = html_of(browse("root").get(f"/jobs/{job.pk}"))
    steps = text.partition("Time per step")[2].partition("</figure>")[0]
    assert "checking · 2.0 s" in steps
    assert "reading · 6.0 s" in steps
    assert steps.count("reading ·") == 1
    assert "odd" not in steps
    place = f"/tables/{job.subject_id}/activity#commits-title"
    assert f'<a href="{place}"><code>20261121113000123</code>' in text
