"""Source tables in whose place a tool for schema changes put another one. Their log is
followed on: the other has the same rows as far as is known, until a verification that
began since has compared them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from core.models import Job
from core.sentences import Sentence
from ingest.contract.following import Replaced
from ingest.models import Pipeline
from ingest.planning.facts import LOG


def note(said: Mapping[int, Replaced | None]) -> None:
    """What is said of these lake tables by who follows their log, None = nothing, for a
    load was begun since; said again it is the same. A verification is due at once."""
    rows = Pipeline.objects.filter(lake_table__in=said, capture=LOG)
    for pk, table_id, known in rows.values_list("pk", "lake_table", "replaced"):
        one = said[table_id]
        if known.get("at", "") == (one.at if one else ""):
            continue
        changed = Pipeline.objects.filter(pk=pk)
        changed.update(replaced=_as_new(one) if one else {}, verify_at=timezone.now())


def is_unverified(pipeline: Pipeline) -> bool:
    return bool(pipeline.replaced) and not pipeline.replaced["is_verified"]


def verified_by(pipeline: Pipeline, job: Job) -> None:
    """In memory. One that began before may have compared the table of before."""
    if is_unverified(pipeline):
        noted = datetime.fromisoformat(pipeline.replaced["noted_at"])
        is_verified = job.created_at >= noted
        pipeline.replaced = {**pipeline.replaced, "is_verified": is_verified}


def described(pipeline: Pipeline) -> str:
    """ "" = nothing has to be verified."""
    if not is_unverified(pipeline):
        return ""
    return Sentence(
        "%(tool)s replaced the table at the source at %(when)s: its changes are"
        " followed on, and it is being verified against the source",
        tool=pipeline.replaced["by"],
        when=pipeline.replaced["when"],
    )


def _as_new(one: Replaced) -> dict[str, Any]:
    when = datetime.fromtimestamp(one.when / 1e6, UTC)
    return {
        "by": one.by,
        "at": one.at,
        "when": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "noted_at": timezone.now().isoformat(),
        "is_verified": False,
    }
