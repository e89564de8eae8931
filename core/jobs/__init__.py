"""The Job state machine and its groups. Pure; rows live in `core.models`."""

from __future__ import annotations

from core.states import Transitions, fan

PLANNED, QUEUED, LAUNCHING, RUNNING = "PLANNED", "QUEUED", "LAUNCHING", "RUNNING"
SUCCEEDED, FAILED, CANCELLED = "SUCCEEDED", "FAILED", "CANCELLED"
CANCELLING, UNKNOWN = "CANCELLING", "UNKNOWN"

WAITING = frozenset({PLANNED, QUEUED})
ACTIVE = frozenset({LAUNCHING, RUNNING, CANCELLING, UNKNOWN})
UNFINISHED = WAITING | ACTIVE
TERMINAL = frozenset({SUCCEEDED, FAILED, CANCELLED})

_LIVE = (LAUNCHING, RUNNING, CANCELLING, UNKNOWN)

JOB = Transitions(
    name="Job",
    initial=PLANNED,
    terminal=TERMINAL,
    arrows={
        (PLANNED, "enqueue"): QUEUED,
        (QUEUED, "claim"): LAUNCHING,
        (LAUNCHING, "accepted"): RUNNING,
        (UNKNOWN, "accepted"): RUNNING,
        **fan(_LIVE, "succeed", SUCCEEDED),
        **fan(_LIVE, "fail", FAILED),
        **fan((PLANNED, QUEUED), "reject", FAILED),
        **fan((LAUNCHING, RUNNING, UNKNOWN), "try_again", QUEUED),
        **fan((LAUNCHING, RUNNING), "mark_unreachable", UNKNOWN),
        **fan((LAUNCHING, RUNNING, UNKNOWN), "request_cancel", CANCELLING),
        **fan((PLANNED, QUEUED), "cancel", CANCELLED),
        **fan(_LIVE, "cancelled", CANCELLED),
        (FAILED, "retry"): QUEUED,
        (CANCELLED, "retry"): QUEUED,
    },
    why={
        "enqueue": "the plan is approved; a worker may claim it",
        "claim": "a worker holds the lease and builds the spec",
        "accepted": "the driver confirmed that it has the spec",
        "succeed": "the report, or the lake's own timeline, says it is done",
        "fail": "the report says so, or attempts are used up",
        "reject": "it can no longer run (its table is gone, say)",
        "try_again": "a transient failure, or a lost run without its commit",
        "mark_unreachable": "its judge cannot be reached; not a failure",
        "request_cancel": "requested; the runner honours it",
        "cancel": "it had not started, so it just ends",
        "cancelled": "the runner has stopped and left nothing half-visible",
        "retry": "another attempt was requested",
    },
)
