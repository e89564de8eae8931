"""Which driver executes a compaction: the one that all jobs share, or one of its own.

Two drivers may work on one table only when its lock is one that both know; that is
pinned at its onboarding. It must not know processes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from django.conf import settings

from catalog.models import Table
from core.errors import InvalidRequest
from core.jobs import WAITING
from core.models import Job
from ingest.contract.driver_size import parse_driver, within
from ingest.contract.job import DriverSpec
from ingest.lake.hudi.identity import shares_lock
from ingest.pipelines.policies import store
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.requests import refuse
from ingest.pipelines.transitions import pipeline_of

DriverRequest = DriverSpec | Literal["shared"] | None
# of a payload: what is planned for this job is what the table's budget affords
BOUND = "within_budget"


def most() -> DriverSpec:
    """What a driver of its own may have."""
    return DriverSpec(
        settings.SLUICE_OWN_DRIVER_MEMORY, settings.SLUICE_OWN_DRIVER_CORES
    )


def parse_driver_request(body: Mapping[str, Any]) -> DriverRequest:
    """Of the body of `:compact`; None = as the table's policy says."""
    size = {name: body[name] for name in ("memory", "cores") if name in body}
    kind = body.get("driver", "own" if size else None)
    if kind == "own":
        return parse_driver(size, "", most=most())
    if kind not in {None, "shared"}:
        refuse("/driver", "driver must be 'own' or 'shared'")
    if size:
        refuse("/driver", "memory and cores are those of a driver of its own")
    return "shared" if kind == "shared" else None


def payload_for(table: Table, asked: DriverRequest) -> dict[str, Any]:
    """What the job's payload says of its driver. InvalidRequest `lock_not_shared` when
    an own one was asked for and the table's lock does not allow it."""
    driver = by_policy(table) if asked is None else asked
    if driver is None or driver == "shared":
        return {}
    if not shares_lock(table.identity):
        raise InvalidRequest(
            "%(table)s has a lock that only one driver knows: a second one must not"
            " compact it while the first one ingests",
            table=table,
            code="lock_not_shared",
            hint="compact it without a driver of its own; a table has a lock that"
            " drivers share when SLUICE_LAKE_LOCK was set at its onboarding",
        )
    return {"driver": dataclasses.asdict(driver)}


def take_over(waiting: Job, asked: Job, requested: DriverRequest) -> None:
    """`asked` is the same work as a job that waits, which then runs as both want it:
    within the budget only if neither may more, in the driver that was asked for."""
    payload = dict(waiting.payload)
    if BOUND not in asked.payload:
        payload.pop(BOUND, None)
    if requested is not None:
        payload.pop("driver", None)
        payload |= {k: v for k, v in asked.payload.items() if k == "driver"}
        waiting.lane = asked.lane
    waiting.payload = payload
    rows = Job.objects.filter(pk=waiting.pk, state__in=WAITING)
    rows.update(lane=waiting.lane, payload=payload)


def by_policy(table: Table) -> DriverSpec | None:
    """Of tables with a shared lock; the others stay in the shared driver, for the
    setting may be that of a whole datasource."""
    pipeline = pipeline_of(table.pk) if shares_lock(table.identity) else None
    return given_by(store.policy_of(pipeline)) if pipeline else None


def given_by(policy: Effective) -> DriverSpec | None:
    """Of a table with a shared lock."""
    given = policy.values["compact_driver"]
    if not given:
        return None
    return within(parse_driver(given, "/compact_driver", most=None), most())
