"""Kinds of jobs that a Spark driver executes, as values.

A job of such a kind works on one lake table, by `payload["table"]`, for one pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import SluiceError, TerminalError
from core.jobs.kinds import Facts, JobKind, kind_of
from core.models import Job
from ingest.contract.job import JobSpec
from ingest.contract.table import FenceSpec
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope


@dataclass(frozen=True, slots=True)
class TableHold:
    """The leases of a table that an attempt has taken.

    fence     of the kind's first scope, for the driver
    scopes    those that are taken
    is_alone  whether the attempt runs in a driver of its own
    """

    fence: FenceSpec
    scopes: tuple[Scope, ...]
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt begins with."""

    spec: JobSpec
    hold: TableHold


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a QUEUED job can no longer run."""

    error: SluiceError


@dataclass(frozen=True, slots=True)
class Left:
    """What a lost attempt has left in the lake.

    facts    what it committed, as its report would contain it; None = the timeline
             shows nothing of it
    is_done  whether the job has succeeded by that
    payload  what the next attempt has to know of the lost one
    """

    facts: Facts | None = None
    is_done: bool = True
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverKind(JobKind):
    """A kind that a Spark driver executes.

    lane         one of LANE_LIMITS
    scopes       the leases it takes, in this order; the first one is its key
    weighs_rows  whether `Job.weight` is the number of the table's rows; else 0
    spec_for     the next attempt of a QUEUED job whose row is locked: it checks that
                 the job may run, takes the table and makes the spec. None = the job
                 waits, and its row has the reason. What it raises takes back all that
                 it wrote, then the job waits (TransientError) or ends
    left_by      what a lost attempt of the job has left in the lake
    """

    lane: str
    scopes: tuple[Scope, ...]
    weighs_rows: bool = False
    spec_for: Callable[[Job], Attempt | Refused | None]
    left_by: Callable[[Job, LakeState], Left]


def driver_kind(name: str) -> DriverKind:
    """Return a kind that drivers execute; TerminalError for others."""
    kind = kind_of(name)
    if not isinstance(kind, DriverKind):
        raise TerminalError(
            f"a {name} job is not executed by a driver", code="not_a_driver_job"
        )
    return kind
