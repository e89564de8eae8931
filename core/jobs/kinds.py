"""Kinds of jobs, as values: what one is called, and what its jobs' ends mean.

A kind is registered once, under the name that rows store, when its app is ready. Who
moves a job's row (`core.jobs.moves`) gets an `End` back and hands it to `conclude`, in
the same transaction: so the row and what follows from it are stored together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models import Q

from core.errors import InvalidRequest, SluiceError, TerminalError
from core.models import Job
from core.retries import Backoff

# `Job.requested_by` of what a schedule has brought about.
SCHEDULE: Final = "schedule"
# What the report of an attempt contains, for the services above.
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Succeeded:
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """For good, after at least one attempt."""

    error: SluiceError
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Failed before it was tried."""

    error: SluiceError


@dataclass(frozen=True, slots=True)
class Retried:
    """An attempt has failed, and another one follows."""

    error: SluiceError
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """facts: of its last attempt; None = it did not run."""

    facts: Facts | None = None
    actor: str = ""


End = Succeeded | Failed | Rejected | Retried | Cancelled


def _nothing(job: Job, end: End) -> None:
    """What most kinds in pages do at an end."""


def _not_again(job_id: UUID, by: str) -> Job:
    raise InvalidRequest("jobs of this kind are not retried", code="not_now")


def _no_facts(job: Job) -> Mapping[str, Any]:
    return {}


_BACKOFF: Final = Backoff(2.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One kind.

    name          as `Job.kind` stores it
    title         for people, in English
    max_attempts  how often it is tried before it fails
    backoff       the pauses between attempts
    outcome       what an end means; called within the transaction of the job's move
    forgotten     which ended jobs are deleted by age, because there are so many of
                  them; None = all are kept
    cannot_stop   why a running job cannot be cancelled; "" = it can
    again         queues a job that failed or was cancelled once more: (id, by whom)
    about         what the audit keeps of a job beside its id
    """

    name: str
    title: str
    max_attempts: int = 4
    backoff: Backoff = _BACKOFF
    outcome: Callable[[Job, End], None] = _nothing
    forgotten: Q | None = None
    cannot_stop: str = ""
    again: Callable[[UUID, str], Job] = _not_again
    about: Callable[[Job], Mapping[str, Any]] = _no_facts


# Of kinds of sources, `unknown_kind` says the same.
UNKNOWN_KIND = "unknown_job_kind"
_registered: dict[str, JobKind] = {}
K = TypeVar("K", bound=JobKind)


def register(*kinds: JobKind) -> None:
    """Make kinds known; `AppConfig.ready` of the package that they belong to does."""
    for kind in kinds:
        if _registered.setdefault(kind.name, kind) != kind:
            raise ValueError(f"two kinds of jobs are called {kind.name}")


def unregister(name: str) -> None:
    """Forget a kind again."""
    _registered.pop(name, None)


def kind_of(name: str) -> JobKind:
    """Return the kind of this name; TerminalError `unknown_job_kind`."""
    try:
        return _registered[name]
    except KeyError:
        raise TerminalError(
            f"'{name}' is no kind of job",
            code=UNKNOWN_KIND,
            hint=f"known are: {', '.join(_registered)}; a job that a newer release"
            " stored has to be ended by that release",
        ) from None


def kinds_of(form: type[K]) -> tuple[K, ...]:
    """Return all kinds of this form, as registered; `JobKind`: all."""
    return tuple(each for each in _registered.values() if isinstance(each, form))


def names_of(form: type[JobKind]) -> tuple[str, ...]:
    return tuple(kind.name for kind in kinds_of(form))


def conclude(job: Job, end: End | None) -> None:
    """Apply what this end of the job means, by its kind; None: it means nothing. Must
    run in the transaction of the job's move."""
    if end is not None:
        kind_of(job.kind).outcome(job, end)
