"""`plan_maintenance()`: what a table needs next and why, shown before it runs. Pure.

It looks at facts only; the job that executes a step asks the timeline again, under a
lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from core.json_values import iso
from core.sentences import Sentence, as_sentence, joined, origins_in
from ingest.maintenance.descriptions import counted, sized
from ingest.maintenance.facts import LakeFacts
from ingest.maintenance.score import LEAST_LOG_BYTES, is_stuck
from ingest.pipelines.policies.maintenance import (
    MaintenancePolicy,
    MaintenanceWindow,
    opens_at,
)

# Since the newest write. While rows come, whoever commits them plans, too, at a pace
# that many small tables share
RESTS = timedelta(minutes=5)

StepName = Literal["execute", "schedule", "wait", "decide"]


@dataclass(frozen=True, slots=True)
class Step:
    """execute: compactions that are planned; schedule: plan one of what the budget
    allows, then execute it; wait: nothing before `at`; decide: a person has to choose a
    repair."""

    name: StepName
    reason: str
    instants: tuple[str, ...] = ()
    at: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "step": self.name,
            "reason": self.reason,
            "instants": list(self.instants),
            "at": self.at or None,
            "sentences": origins_in([self.reason]),
        }


def plan_maintenance(
    facts: LakeFacts,
    policy: MaintenancePolicy,
    now: datetime,
    *,
    quiet: MaintenanceWindow | None = None,
) -> tuple[Step, ...]:
    """() when the table needs nothing."""
    unreadable = [p.instant for p in facts.pending_compactions if not p.is_readable]
    if unreadable or facts.conflicts_total or facts.taken or facts.altered:
        return (
            Step(
                "decide",
                "nothing is compacted before the table is repaired",
                tuple(unreadable),
            ),
        )
    wanted = _execute(facts, policy) or _schedule(facts, policy, now)
    if wanted is None:
        return ()
    opening = opens_at(quiet, now) if quiet else None
    if opening is not None:
        at = iso(opening)
        return (
            Step(
                "wait",
                Sentence(
                    "%(reason)s; its maintenance window begins then",
                    reason=as_sentence(wanted.reason),
                ),
                (),
                at,
            ),
        )
    return (wanted,)


def _execute(facts: LakeFacts, policy: MaintenancePolicy) -> Step | None:
    """Also what a dead job left inflight: the holder of the lease does it again."""
    plans = facts.pending_compactions
    free = [p for p in plans if not p.is_held]
    if not free:
        # held: it is being executed; none: nothing is planned
        return None
    late = sum(is_stuck(p, policy.stuck_after_seconds) for p in free)
    said = Sentence("%(count)s planned on the timeline", count=len(free))
    if late:
        said = Sentence(
            "%(count)s planned on the timeline, %(late)s of them for too long",
            count=len(free),
            late=late,
        )
    return Step(
        "execute",
        said,
        tuple(p.instant for p in free),
    )


def _schedule(
    facts: LakeFacts, policy: MaintenancePolicy, now: datetime
) -> Step | None:
    if facts.pending_compactions or not facts.log_files:
        return None
    if facts.merge is not None and not facts.merge.due_groups:
        # no rewrite is worth it, or none is affordable
        return None
    reasons: list[str] = list(_triggers(facts, policy, now))
    if facts.merge is not None and reasons:
        groups = counted(facts.merge.due_groups, "file group")
        reasons.append(
            Sentence(
                "worth it: %(groups)s of %(due_bytes)s",
                groups=groups,
                due_bytes=sized(facts.merge.due_bytes),
            )
        )
    return Step("schedule", joined(reasons)) if reasons else None


def is_due_at_rest(facts: LakeFacts, policy: MaintenancePolicy) -> bool:
    return facts.delta_commits >= policy.compact_after


def _rests(facts: LakeFacts, now: datetime) -> bool:
    return facts.written_at == "" or now - _at(facts.written_at) >= RESTS


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _triggers(
    facts: LakeFacts, policy: MaintenancePolicy, now: datetime
) -> Iterator[str]:
    if is_due_at_rest(facts, policy) and (facts.is_slow or _rests(facts, now)):
        yield Sentence(
            "%(count)s commits since the last compaction", count=facts.delta_commits
        )
    if facts.log_bytes >= policy.compact_log_bytes:
        yield Sentence("%(log_bytes)s of log files", log_bytes=sized(facts.log_bytes))
    if (
        facts.log_bytes >= LEAST_LOG_BYTES
        and facts.log_ratio >= policy.compact_log_ratio
    ):
        yield Sentence(
            "%(log_ratio)s bytes of log files per byte of base files",
            log_ratio=f"{facts.log_ratio:.1f}",
        )
    if facts.oldest_log_at:
        age = now - _at(facts.oldest_log_at)
        if age >= timedelta(seconds=policy.compact_log_age_seconds):
            yield Sentence(
                "its oldest log file is %(hours)s h old",
                hours=f"{age.total_seconds() / 3600:.0f}",
            )
