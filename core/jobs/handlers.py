"""What a kind of job is: one handler, registered once under the name that rows store.

The engine (`moves`, `pages`) asks the handler of a row and knows no kind.
A handler decides for one kind: when it may run, what it does, what its ends mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django.db.models import Q

from core.errors import InvalidRequest, SluiceError, TerminalError
from core.models import Job
from core.retries import Backoff

# `Job.requested_by` of what a schedule has brought about.
SCHEDULE = "schedule"
S = TypeVar("S")
# What a report says of an attempt, for the services above.
Facts = Mapping[str, Any]


class JobHandler(Generic[S]):
    """One kind. `S` is what a job of it works for, locked once for each step.

    name          as `Job.kind` stores it
    title         for people, in English
    lane          which queue it waits in; "" = none
    max_attempts  how often it is tried before it fails
    backoff       the pauses between attempts

    What has a name in the past is called within the transaction of that move.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    lane: ClassVar[str] = ""
    max_attempts: ClassVar[int] = 4
    backoff: ClassVar[Backoff] = Backoff(2.0, 300.0)

    def lock(self, job: Job) -> S:
        """Return what the job works for, locked where moves of it must not overlap."""
        raise NotImplementedError

    def tried(self, job: Job) -> int:
        """Return how many attempts the job has had, the present one with them."""
        return job.attempts

    def claimed(self, job: Job, subject: S) -> None:
        """The job was taken from its queue."""

    def succeeded(self, job: Job, subject: S, facts: Facts) -> None:
        """The job has ended well."""

    def failed(
        self, job: Job, subject: S | None, error: SluiceError, facts: Facts
    ) -> None:
        """The job has failed for good."""

    def rejected(self, job: Job, subject: S, error: SluiceError) -> None:
        """The job failed before it was tried."""

    def retried(self, job: Job, subject: S, error: SluiceError, facts: Facts) -> None:
        """An attempt has failed, and another one follows."""

    def cancelled(
        self, job: Job, subject: S | None, facts: Facts | None, *, actor: str
    ) -> None:
        """The job was cancelled. facts: of its last attempt; None = it did not run."""

    def forgotten(self) -> Q | None:
        """Return which ended jobs go by their age, because there are so many of them;
        None = all stay."""
        return None

    # -------------------------------------------------------------- on request

    def refuses_to_stop(self, job: Job) -> SluiceError | None:
        """Return why a running job cannot be cancelled, or None."""
        return None

    def again(self, job_id: UUID, *, by: str) -> Job:
        """Queue a job that failed or was cancelled once more, and return it."""
        raise InvalidRequest(f"a {self.name} job is not retried", code="not_now")

    def about(self, job: Job) -> Mapping[str, Any]:
        """Return what the audit says of a job beside its id."""
        return {}


# Of kinds of sources, `unknown_kind` says the same.
UNKNOWN_KIND = "unknown_job_kind"
_registered: dict[str, JobHandler[Any]] = {}
H = TypeVar("H", bound=JobHandler[Any])


def register(*handlers: JobHandler[Any]) -> None:
    """Make kinds known; `AppConfig.ready` of the package that they belong to does."""
    for handler in handlers:
        known = _registered.setdefault(handler.name, handler)
        if type(known) is not type(handler):
            raise ValueError(f"two handlers for jobs of kind {handler.name}")


def unregister(name: str) -> None:
    """Forget a kind again."""
    _registered.pop(name, None)


def handler_of(kind: str) -> JobHandler[Any]:
    """Return the handler of a kind; TerminalError `unknown_job_kind`."""
    try:
        return _registered[kind]
    except KeyError:
        raise TerminalError(
            f"'{kind}' is no kind of job",
            code=UNKNOWN_KIND,
            hint=f"known are: {', '.join(_registered)}; a job that a newer release"
            " stored has to be ended by that release",
        ) from None


def handlers_of(executor: type[H]) -> tuple[H, ...]:
    """Return the handlers of all kinds that this class executes, as registered."""
    return tuple(each for each in _registered.values() if isinstance(each, executor))


def names_of(executor: type[JobHandler[Any]]) -> tuple[str, ...]:
    return tuple(handler.name for handler in handlers_of(executor))
