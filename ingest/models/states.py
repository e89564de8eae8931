"""State machines of ingestion. Pure tables; docs/states.md is generated from them."""

from __future__ import annotations

from core.states import Transitions, fan

DRAFT, DISCOVERED, PROPOSED, APPROVED = "DRAFT", "DISCOVERED", "PROPOSED", "APPROVED"
SNAPSHOTTING, CATCHING_UP, LIVE = "SNAPSHOTTING", "CATCHING_UP", "LIVE"
PAUSED, NEEDS_RESYNC, RESYNCING = "PAUSED", "NEEDS_RESYNC", "RESYNCING"
REMOVING, FAILED, RETIRED = "REMOVING", "FAILED", "RETIRED"

LOADED = frozenset({CATCHING_UP, LIVE})
LOADING = frozenset({SNAPSHOTTING, RESYNCING})
RESUMABLE = frozenset({PAUSED, FAILED})
MOVING = frozenset({SNAPSHOTTING, CATCHING_UP, RESYNCING})

# Nothing is synced until a person acts.
HALTED = frozenset({FAILED, NEEDS_RESYNC, PAUSED})
_RUNNING = (SNAPSHOTTING, CATCHING_UP, LIVE, RESYNCING, NEEDS_RESYNC)

PIPELINE = Transitions(
    name="Pipeline",
    initial=DRAFT,
    terminal=frozenset({RETIRED}),
    arrows={
        (DRAFT, "discover"): DISCOVERED,
        (DISCOVERED, "propose"): PROPOSED,
        (PROPOSED, "propose"): PROPOSED,
        (PROPOSED, "approve"): APPROVED,
        (PROPOSED, "discard"): RETIRED,
        (APPROVED, "start_snapshot"): SNAPSHOTTING,
        (SNAPSHOTTING, "load"): CATCHING_UP,
        (CATCHING_UP, "catch_up"): LIVE,
        (LIVE, "fall_behind"): CATCHING_UP,
        **fan((LIVE, CATCHING_UP, NEEDS_RESYNC, FAILED), "start_resync", RESYNCING),
        (RESYNCING, "load"): CATCHING_UP,
        **fan((LIVE, CATCHING_UP), "lose_position", NEEDS_RESYNC),
        **fan((APPROVED, *_RUNNING), "pause", PAUSED),
        (PAUSED, "resume_approved"): APPROVED,
        (PAUSED, "resume_snapshot"): SNAPSHOTTING,
        (PAUSED, "resume_catch_up"): CATCHING_UP,
        (PAUSED, "resume_resync"): RESYNCING,
        (PAUSED, "resume_needs_resync"): NEEDS_RESYNC,
        **fan((APPROVED, *_RUNNING), "fail", FAILED),
        (FAILED, "resume_approved"): APPROVED,
        (FAILED, "resume_snapshot"): SNAPSHOTTING,
        (FAILED, "resume_catch_up"): CATCHING_UP,
        (FAILED, "resume_resync"): RESYNCING,
        (FAILED, "resume_needs_resync"): NEEDS_RESYNC,
        **fan(
            (DRAFT, DISCOVERED, PROPOSED, APPROVED, *_RUNNING, PAUSED, FAILED),
            "remove",
            REMOVING,
        ),
        (REMOVING, "retire"): RETIRED,
        (REMOVING, "keep"): PAUSED,
    },
    why={
        "discover": "the source's columns have been read",
        "propose": "a plan with reasons waits for approval",
        "approve": "the plan was approved; names and identity are pinned",
        "discard": "the plan was discarded; nothing had been read or written",
        "start_snapshot": "the load may run; capture's lower bound is noted first",
        "load": "the one commit of the load is on the lake's timeline",
        "catch_up": "the last due sync is committed",
        "fall_behind": "a due sync could not be committed in time",
        "start_resync": "a fresh copy was requested; readers keep the old one",
        "lose_position": "no sync from our position makes the lake equal to its source",
        "pause": "requested; finished work is kept",
        "fail": "a terminal error; the reason says what to do",
        "resume_approved": "requested; nothing had begun",
        "resume_snapshot": "requested; what the load has staged is kept",
        "resume_catch_up": "requested; it goes on behind its position",
        "resume_resync": "requested; the fresh copy goes on",
        "resume_needs_resync": "requested; only a fresh copy brings it on",
        "remove": "the pipeline is to be removed",
        "retire": "nothing writes the table any more",
        "keep": "the database was restored from a backup; a removal is asked for again",
    },
)

# Events of a pipeline that people asked for, or should know; jobs tell the others.
DECIDED = (
    "approve", "pause", "fail", "lose_position", "resume_approved", "resume_snapshot",
    "resume_catch_up", "resume_resync", "resume_needs_resync", "remove", "retire",
    "keep",
)  # fmt: skip

SCHEDULED, INFLIGHT = "SCHEDULED", "INFLIGHT"
COMPLETED, PLAN_FAILED, CANCELLED, SUPERSEDED = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "SUPERSEDED",
)

MAINTENANCE = Transitions(
    name="MaintenancePlan",
    initial=SCHEDULED,
    terminal=frozenset({COMPLETED, CANCELLED, SUPERSEDED}),
    arrows={
        (SCHEDULED, "start"): INFLIGHT,
        **fan((SCHEDULED, INFLIGHT, PLAN_FAILED), "complete", COMPLETED),
        (INFLIGHT, "fail"): PLAN_FAILED,
        (PLAN_FAILED, "reschedule"): SCHEDULED,
        (INFLIGHT, "roll_back"): SCHEDULED,
        (SCHEDULED, "cancel"): CANCELLED,
        **fan((SCHEDULED, INFLIGHT, PLAN_FAILED), "supersede", SUPERSEDED),
    },
    why={
        "start": "a leased job executes it",
        "complete": "the timeline shows it completed",
        "fail": "the attempt ended with an error",
        "reschedule": "another attempt is due",
        "roll_back": "the attempt was lost and its files are rolled back",
        "cancel": "it is no longer wanted and nothing has run",
        "supersede": "the instant is gone from the timeline",
    },
)
