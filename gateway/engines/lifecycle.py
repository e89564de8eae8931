"""What to do with an engine next: a pure function of what is wanted and observed.

Must not know processes, sockets or clocks; `supervisor` observes and carries out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.retries import Backoff
from core.states import Transitions, fan


class EngineState(StrEnum):
    """Observed state of one engine process."""

    STOPPED = "STOPPED"
    STARTING = "STARTING"
    READY = "READY"
    FAILED = "FAILED"


class Desired(StrEnum):
    """What the gateway wants of an engine."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"


class Action(StrEnum):
    """The next step. WAIT means: something is under way or a pause is due."""

    WAIT = "WAIT"
    START = "START"
    PROBE = "PROBE"
    STOP = "STOP"
    KILL = "KILL"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is known of an engine now; the input of `next_action`.

    `started_at` and `last_seen_at` are monotonic seconds, None before the first
    start or hello. `reason` says why it is FAILED.
    """

    engine_id: str
    state: EngineState
    pid: int | None = None
    port: int | None = None
    started_at: float | None = None
    last_seen_at: float | None = None
    open_sessions: int = 0
    starts: int = 0
    consecutive_failures: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a step is due."""

    probe_every: float = 10.0
    dead_after: float = 45.0
    start_within: float = 180.0
    retry_first: float = 1.0
    retry_longest: float = 60.0


ENGINE = Transitions(
    name="Engine",
    initial=EngineState.STOPPED,
    arrows={
        **fan((EngineState.STOPPED, EngineState.FAILED), "start", EngineState.STARTING),
        (EngineState.STARTING, "ready"): EngineState.READY,
        (EngineState.STARTING, "fail"): EngineState.FAILED,
        (EngineState.READY, "die"): EngineState.FAILED,
        **fan(tuple(EngineState), "stop", EngineState.STOPPED),
    },
    why={
        "start": "a statement needs an engine, or one died while wanted",
        "ready": "the Thrift port answers and the control channel is welcomed",
        "fail": "it did not become ready; the reason holds the log's end",
        "die": "the process ended or was given up",
        "stop": "it was ended on purpose",
    },
)


def next_action(
    desired: Desired, facts: EngineFacts, *, now: float, limits: Limits
) -> Action:
    """Return the step that brings the observed engine nearer to the desired one.

    `now` is on the clock of `facts.started_at` and `facts.last_seen_at`.
    """
    if desired is Desired.STOPPED:
        is_there = facts.state not in {EngineState.STOPPED, EngineState.FAILED}
        return Action.STOP if is_there else Action.WAIT
    if facts.state is EngineState.STOPPED:
        return Action.START
    if facts.state is EngineState.FAILED:
        pauses = Backoff(limits.retry_first, limits.retry_longest)
        pause = pauses.after(facts.consecutive_failures)
        return Action.START if _age(facts.started_at, now) >= pause else Action.WAIT
    if facts.state is EngineState.STARTING:
        late = _age(facts.started_at, now) > limits.start_within
        return Action.KILL if late else Action.WAIT
    silence = _age(facts.last_seen_at, now)
    if silence > limits.dead_after:
        return Action.KILL
    return Action.PROBE if silence >= limits.probe_every else Action.WAIT


def _age(instant: float | None, now: float) -> float:
    return float("inf") if instant is None else now - instant
