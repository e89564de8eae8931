"""What a sync noticed of its source is kept on the table, and said until it is settled."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidRequest
from core.jobs import moves
from core.jobs.moves import Succeeded, conclude
from ingest.jobs.kinds import Attempt, driver_kind
from ingest.models import Pipeline
from ingest.pipelines.sync_job import start_sync
from ingest.pipelines.transitions import pipeline_of
from ingest.sources.fingerprint import ServerFingerprint, SourceFingerprint, to_data

pytestmark = pytest.mark.django_db

NOTICED = to_data(
    SourceFingerprint(
        ServerFingerprint("16384", True, server="7001"),
        late=2,
        notices=("another server answers",),
    )
)


@pytest.fixture
def live(world: Any) -> Any:
    world.live("orders")
    return world


def sync(world: Any, **facts: Any) -> None:
    world.launcher.facts["sync"] = facts
    job = start_sync(world.pipeline("orders"), actor="ann")

    def is_over() -> bool:
        job.refresh_from_db()
        return job.is_finished

    world.until(is_over)
    assert job.state == "SUCCEEDED"


def test_the_next_sync_gets_what_the_last_one_saw(live: Any) -> None:
    sync(live, source_fingerprint=NOTICED)
    assert live.pipeline("orders").source_fingerprint == NOTICED
    sync(live)
    syncs = [s for s in live.launcher.submitted if s.kind == "sync"]
    assert syncs[-1].sync.source_fingerprint == NOTICED
    assert live.pipeline("orders").source_fingerprint == NOTICED, (
        "a replay of a seal saw nothing"
    )


def test_the_table_says_it_until_a_verification_finds_both_sides_equal(
    live: Any,
) -> None:
    sync(live, source_fingerprint=NOTICED, ahead=3)
    reason = live.pipeline("orders").status_reason
    for part in ("another server answers", "at least 2 rows", "3 rows have a cursor"):
        assert part in reason
    assert live.lake("orders").status_reason == reason
    job = live.jobs("sync")[-1]
    job.kind, job.spec = "verify", {"verify": {"source_fingerprint": NOTICED}}
    conclude(job, Succeeded({"verdict": "different"}))
    assert live.pipeline("orders").source_fingerprint == NOTICED
    meanwhile = {**NOTICED, "notices": [*NOTICED["notices"], "a fail-over"]}
    sync(live, source_fingerprint=meanwhile)
    conclude(job, Succeeded({"verdict": "equal"}))
    kept = live.pipeline("orders").source_fingerprint
    assert (kept["notices"], kept["late"]) == (["a fail-over"], 0), "it began before"
    job.spec = {"verify": {"source_fingerprint": meanwhile}}
    conclude(job, Succeeded({"verdict": "equal"}))
    kept = live.pipeline("orders").source_fingerprint
    assert (kept["notices"], kept["late"]) == ([], 0)
    assert kept["server"] == "7001"


def test_a_load_begins_with_what_it_saw_itself(live: Any) -> None:
    sync(live, source_fingerprint=NOTICED)
    job = live.jobs("snapshot")[-1]
    conclude(job, Succeeded({"source_fingerprint": {"late": 0}}))
    assert live.pipeline("orders").source_fingerprint == {"late": 0}


@pytest.mark.parametrize("code", ["source_recreated", "key_values_changed"])
def test_a_table_with_other_rows_or_keys_waits_for_a_re_sync(
    live: Any, code: str
) -> None:
    job = start_sync(live.pipeline("orders"), actor="ann")
    live.until(lambda: live.jobs("sync")[-1].is_finished)
    refused = InvalidRequest("dropped and created again", code=code)
    job = start_sync(live.pipeline("orders"), actor="ann")
    type(job).objects.filter(pk=job.pk).update(state="RUNNING")
    job.refresh_from_db()
    conclude(job, moves.fail(job, refused))
    now = live.pipeline("orders")
    assert now.state == "NEEDS_RESYNC"
    assert "created again" in now.status_reason
    assert now.due_at is None


@pytest.mark.parametrize(
    ("own", "is_chosen"), [({}, False), ({"lag_seconds": 60}, True)]
)
def test_a_chosen_lag_reaches_the_driver(live: Any, own: Any, is_chosen: bool) -> None:
    pipeline = live.pipeline("orders")
    pipeline.policy = own
    pipeline.save()
    pipeline = pipeline_of(pipeline.lake_table_id)
    for kind, state in (("snapshot", "SNAPSHOTTING"), ("sync", "LIVE")):
        Pipeline.objects.filter(pk=pipeline.pk).update(state=state)
        job = live.jobs("snapshot")[0]
        job.kind = kind
        attempt = driver_kind(kind).spec_for(job)
        assert isinstance(attempt, Attempt)
        work = attempt.spec.sync or attempt.spec.snapshot
        assert work is not None
        assert work.lag_is_chosen is is_chosen
