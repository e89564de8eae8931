"""What a load leaves behind: on its row when it is done, in words when cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.models import Job
from ingest.contract.kinds import LOADS, RESYNC


def note_done(job: Job, facts: Mapping[str, Any]) -> None:
    """What a load carried stays on its row; its last phase counted nothing."""
    if job.kind in LOADS and facts.get("rows") is not None:
        rows = int(facts["rows"])
        done = {"phase": "loaded", "done": rows, "total": rows, "unit": "rows"}
        Job.objects.filter(pk=job.pk).update(**done)


def left_by(job: Job) -> str:
    """What a cancelled load leaves, and what may be done next."""
    if job.kind == RESYNC:
        return (
            "readers keep the rows of before. Resume carries on from there without the"
            " re-sync; Re-sync begins a fresh copy"
        )
    return "no rows can be read yet. Resume goes on with the chunks that are finished"
