"""What a host holds in memory of one source that it follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from core.retries import Backoff
from core.sentences import Sentence, with_sentences
from ingest.contract.following import FollowedTable, FollowerState
from ingest.contract.job import ErrorFact, Outcome, error_from
from ingest.contract.members import value_of
from ingest.followers_host.children import FollowerChild

RESTART = Backoff(0.5, 30.0)
# What another start does not mend: someone has to act, or the source.
TERMINAL_SECONDS = 60.0
# A reader that ran so long has nothing to do with the failures before.
STEADY_SECONDS = 60.0
RATE_SECONDS = 10.0
_NOTHING = FollowerState("starting")


def state_of(message: Mapping[str, Any], before: FollowerState) -> FollowerState:
    """before: of the same process, the one before."""
    state = value_of(FollowerState, with_sentences(message))
    return state if "tables" in message else replace(state, tables=before.tables)


@dataclass(slots=True)
class FollowedSource:
    """A source whose lease is ours.

    asked        see `Wanted`: when the present child was started or waited for
    observed     as `SourceFollower` has it, with reason, code and hint
    heard        when something last came from the child; started: when it was
    is_heard     a report came that is not written yet
    is_released  nothing of it is left at the source
    ends_by      when the child is killed that was asked to end
    failures     starts in a row that ended soon; next_start: not before
    """

    datasource_id: int
    asked: tuple[datetime, int]
    child: FollowerChild | None = None
    starts: int = 0
    state: FollowerState = _NOTHING
    observed: str = "starting"
    reason: str = ""
    code: str = ""
    hint: str = ""
    heard: float = 0.0
    started: float = 0.0
    is_ready: bool = False
    is_heard: bool = False
    is_told_to_end: bool = False
    is_released: bool = False
    ends_by: float = 0.0
    failures: int = 0
    next_start: float = float("-inf")
    outcome: Outcome = "transient"
    counts: deque[tuple[float, int]] = field(default_factory=deque)

    def note_started(self, child: FollowerChild, now: float) -> None:
        self.child, self.starts = child, child.start
        self.heard = self.started = now
        self.is_ready = self.is_told_to_end = False
        self.outcome = "transient"
        self.counts.clear()
        if self.observed != "failed":
            self.show("starting")

    def note_state(self, state: FollowerState, now: float) -> None:
        self.state, self.is_heard = state, True
        # one that fails at each start has not recovered while it starts again
        if (self.observed, state.observed) != ("failed", "starting"):
            self.show(state.observed, reason=state.reason or state.unread)
        self.counts.append((now, state.rows))
        while now - self.counts[0][0] > RATE_SECONDS:
            self.counts.popleft()

    def note_failed(self, outcome: Outcome, error: ErrorFact) -> None:
        """It reports why it ends."""
        self.outcome, found = outcome, error_from(outcome, error)
        self.show("failed", found.message, found.code, found.hint)

    def note_ended(self, code: object, now: float) -> None:
        """The child is gone: when the next one is started."""
        child, self.child = self.child, None
        if child is not None and child.spec.is_over and code == 0:
            self.is_released = not self.is_told_to_end
            self.next_start = now
            return
        if self.is_told_to_end:
            self.next_start = now
            return
        if self.observed != "failed":
            ended = Sentence("the follower ended with code %(code)s", code=code)
            self.show("failed", ended, "follower_died")
        if now - self.started >= STEADY_SECONDS:
            self.failures = 0
        self.note_not_started(now)

    def note_not_started(self, now: float) -> None:
        """When it is tried again after a failure."""
        self.failures += 1
        pause = RESTART.after(self.failures)
        if self.outcome not in {"transient", "succeeded"}:
            pause = TERMINAL_SECONDS
        self.next_start = now + pause

    @property
    def has_begun_anew(self) -> bool:
        """What was lost is passed over: a later start does not."""
        is_anew = self.child is not None and self.child.spec.begin_anew
        return is_anew and self.observed == "following"

    @property
    def tables(self) -> tuple[FollowedTable, ...]:
        """As it reported last, while it lives."""
        return self.state.tables if self.child else ()

    def show(
        self, observed: str, reason: str = "", code: str = "", hint: str = ""
    ) -> None:
        self.observed = observed
        self.reason, self.code, self.hint = reason, code, hint

    @property
    def rows_per_second(self) -> float:
        if len(self.counts) < 2:
            return 0.0
        (begun, before), (now, rows) = self.counts[0], self.counts[-1]
        return max(0.0, (rows - before) / max(now - begun, 0.001))
