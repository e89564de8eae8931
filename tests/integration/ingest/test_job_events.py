"""Events of a job: live, resumed without loss or doubles, few streams at a time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from django.db import close_old_connections, connection, connections
from django.test.utils import CaptureQueriesContext

from core.advance import advance
from core.models import Job, JobLog
from core.sentences import Sentence
from ingest.api import events as streams
from ingest.jobs.events import Position, look
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.django_db

SSE = "text/event-stream"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(streams, "PERIOD_SECONDS", 0.02)
    monkeypatch.setattr(streams, "STREAM_SECONDS", 30.0)
    yield
    assert streams.PLACES.taken == 0, "every place is given back"


@pytest.fixture
def job(db) -> Job:
    job = Job.objects.create(kind="sync", subject="lake.shop.orders", total=2**60)
    advance(job, "enqueue")
    return job


def say(job: Job, *texts: str) -> None:
    JobLog.objects.bulk_create(
        [JobLog(job=job, level="info", message=text) for text in texts]
    )


def end(job: Job) -> None:
    for event in ("claim", "accepted", "succeed"):
        advance(job, event)


def frames(reply) -> Iterator[dict]:
    """Events as a browser gets them."""
    text = b"".join(reply.streaming_content).decode()
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in lines:
            yield {**lines, "data": json.loads(lines["data"])}


def told(events) -> list[str]:
    return [
        e["data"].get("message") or e["data"].get("after") or e["event"] for e in events
    ]


def test_a_stream_tells_everything_in_order_and_ends_with_the_job(admin, job) -> None:
    say(job, "one", "two\nlines\r\n", "dreißig\u2028")
    end(job)
    reply = admin("GET", f"jobs/{job.pk}/events", Accept=SSE)
    assert (reply.status_code, reply["Content-Type"]) == (200, SSE)
    events = list(frames(reply))
    assert told(events) == [
        *("QUEUED", "one", "two\nlines\r\n", "dreißig\u2028"),
        *("LAUNCHING", "RUNNING", "SUCCEEDED", "progress", "end"),
    ]
    assert events[-2]["data"]["total"] == str(2**60)
    assert len({e["id"] for e in events}) == len(events)
    after_end = admin("GET", f"jobs/{job.pk}/events", Last_Event_ID=events[-1]["id"])
    assert after_end.status_code == 204


def test_resuming_behind_any_event_gives_exactly_the_rest(admin, job) -> None:
    say(job, "a", "b")
    advance(job, "claim")
    say(job, "c")
    advance(job, "accepted")
    advance(job, "succeed")
    path = f"jobs/{job.pk}/events"
    events = list(frames(admin("GET", path, Accept=SSE)))
    for index, event in enumerate(events[:-1]):
        rest = frames(admin("GET", path, Accept=SSE, Last_Event_ID=event["id"]))
        assert list(rest) == events[index + 1 :]
    by_query = admin("GET", f"{path}?last_event_id={events[2]['id']}")
    assert list(frames(by_query)) == events[3:]


def test_more_than_one_look_holds_is_told_without_a_gap(admin, job) -> None:
    say(job, *[f"{n}" for n in range(1201)])
    end(job)
    events = list(frames(admin("GET", f"jobs/{job.pk}/events", Accept=SSE)))
    lines = [e["data"]["message"] for e in events if e["event"] == "log"]
    assert lines == [f"{n}" for n in range(1201)]
    assert sum(e["event"] == "progress" for e in events) == 1


def test_json_is_a_page(admin, job) -> None:
    say(job, *[f"{n}" for n in range(7)])
    path, token, seen = f"jobs/{job.pk}/events?page_size=3", "", []
    while token is not None:
        page = admin("GET", f"{path}&page_token={token}", Accept="application/json")
        assert page["Content-Type"] == "application/json"
        seen += page.json()["items"]
        token = page.json()["next_page_token"]
    assert told(seen) == ["QUEUED", *[f"{n}" for n in range(7)], "progress"]
    last = page.json()
    assert (last["is_finished"], last["last_event_id"]) == (False, seen[-1]["id"])


def test_events_are_as_visible_as_the_job(ann, job) -> None:
    for accept in (SSE, "application/json", "*/*"):
        reply = ann("GET", f"jobs/{job.pk}/events", Accept=accept)
        problem(reply, 404, "job_not_found")
    Job.objects.filter(pk=job.pk).update(requested_by="ann")
    reply = ann("GET", f"jobs/{job.pk}/events", Last_Event_ID="1-2")
    problem(reply, 400, "invalid_event_id")
    assert ann("GET", f"jobs/{job.pk}/events", Accept="text/html").status_code == 406


def test_beyond_the_limit_a_stream_tells_what_there_is_and_ends(admin, job) -> None:
    places = [streams.PLACES.take("somebody") for _ in range(3)]
    assert [p is None for p in places] == [False, False, True], "two of one user"
    others = [streams.PLACES.take("b"), streams.PLACES.take("c")]
    reply = admin("GET", f"jobs/{job.pk}/events", Accept=SSE)
    text = b"".join(reply.streaming_content)
    assert b"retry: 3000\n" in text
    assert b"QUEUED" in text
    for place in [*places[:2], *others]:
        place.give_back()
        place.give_back()


def test_a_stream_that_nobody_reads_gives_its_place_back(admin, job) -> None:
    assert admin("HEAD", f"jobs/{job.pk}/events", Accept=SSE).status_code == 200
    reply = admin("GET", f"jobs/{job.pk}/events", Accept=SSE)
    assert streams.PLACES.taken == 1
    for close in reply._resource_closers:  # what the web server's close() calls
        close()
    assert streams.PLACES.taken == 0


def test_a_look_is_one_statement(admin, job) -> None:
    say(job, "x")
    with CaptureQueriesContext(connection) as seen:
        look(job.pk, Position())
    assert len(seen) == 1


@pytest.mark.django_db(transaction=True)
def test_what_happens_meanwhile_arrives_once(admin, job, monkeypatch) -> None:
    monkeypatch.setattr(streams, "STREAM_SECONDS", 0.15)
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)

    came_back = threading.Event()

    def live() -> None:
        close_old_connections()
        for n in range(20):
            say(job, f"{n}")
            Job.objects.filter(pk=job.pk).update(done=n)
            time.sleep(0.03)
        came_back.wait(LIMIT_SECONDS)
        end(job)
        connections.close_all()

    worker = threading.Thread(target=live)
    worker.start()
    events, last, calls = [], "", 0
    while not events or events[-1]["event"] != "end":
        reply = admin("GET", f"jobs/{job.pk}/events", Accept=SSE, Last_Event_ID=last)
        events += list(frames(reply))
        last, calls = events[-1]["id"], calls + 1
        if calls > 2:
            came_back.set()
    worker.join()
    assert calls > 2, "it came back several times"
    lines = [e["data"]["message"] for e in events if e["event"] == "log"]
    assert lines == [f"{n}" for n in range(20)]
    moves = [e["data"]["after"] for e in events if e["event"] == "state"]
    assert moves == ["QUEUED", "LAUNCHING", "RUNNING", "SUCCEEDED"]
    done = [e["data"]["done"] for e in events if e["event"] == "progress"]
    assert done == sorted(done)
    assert done[-1] == 19


def test_a_reason_is_told_as_text(admin, job) -> None:
    why = Sentence("paused by %(actor)s", actor="ann")
    advance(job, "claim", reason=why)
    Job.objects.filter(pk=job.pk).update(reason=why)
    page = admin("GET", f"jobs/{job.pk}/events", Accept="application/json").json()
    reasons = [item["data"].get("reason") for item in page["items"]]
    assert reasons == ["", "paused by ann", "paused by ann"]
