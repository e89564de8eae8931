"""`score()`: 0 to 100, and for every lost point why and which repair helps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.sentences import STOP, Sentence, filled, joined, origins_in
from ingest.lake.hudi.descriptions import STATES, named
from ingest.maintenance.buckets import is_skewed, suggest_buckets
from ingest.maintenance.descriptions import counted, sized, span
from ingest.maintenance.facts import MB, LakeFacts, Pending
from ingest.maintenance.merging import MergeCost
from ingest.maintenance.remedies import Repair, Way, ways_out
from ingest.pipelines.policies.maintenance import MaintenancePolicy

GRACE_SECONDS = 60.0
MOST_LOGS = 100
MOST_INSTANTS = 150
MOST_ROLLBACKS = 5
SMALL_BYTES = 8 * MB
SMALL_GROUPS = 16
# below this, logs cost no reader anything worth a rewrite
LEAST_LOG_BYTES = MB
# Losses that mean work on the timeline stands still,
STUCK_CODES = frozenset(
    {"plan_unreadable", "compaction_stuck", "compaction_waits", "write_stuck"}
)
# and those that mean the table's rows are wrong, or cannot be written.
BROKEN_CODES = frozenset(
    {
        "files_gone",
        "lock_taken",
        "properties_drift",
        "bucket_drift",
        "bucket_conflict",
        "stray_files",
    }
)


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """Points lost for one reason.

    instant        what the repair is about, or ""
    buckets        how many the table should have, 0 = it is not about that
    action, state  of unfinished work, as its timeline says; else ""
    """

    code: str
    points: int
    reason: str
    repair: Repair = ""
    instant: str = ""
    buckets: int = 0
    action: str = ""
    state: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "points": self.points,
            "reason": self.reason,
            "repair": self.repair or None,
            "instant": self.instant or None,
            "buckets": self.buckets or None,
            "action": self.action or None,
            "state": self.state or None,
            "sentences": origins_in([self.reason]),
        }


@dataclass(frozen=True, slots=True)
class Health:
    score: int
    issues: tuple[HealthIssue, ...]


def _issue(
    code: str, points: int, message: str, repair: Repair = "", **named: object
) -> HealthIssue:
    return HealthIssue(code, points, filled(message, named), repair)


LOG_LOST = "LOG_LOST"
# By how the table stands: what its files are like does not matter to
# a user who waits for its rows.
STOPPED: Mapping[str, tuple[int, str, str, Repair]] = {
    "FAILED": (60, "table_failed", "the table failed: nothing new is synced", ""),
    "NEEDS_RESYNC": (
        50,
        "needs_resync",
        "nothing new is synced until a resync",
        "resync",
    ),
    LOG_LOST: (
        50,
        "log_lost",
        "the log that it follows is lost: nothing new is synced until you start its"
        " follower over and resync the table",
        "",
    ),
    "FAILING": (
        30,
        "syncs_failing",
        "its syncs fail: nothing new is synced until one succeeds",
        "",
    ),
    "PAUSED": (25, "table_paused", "it is paused: nothing new is synced", ""),
}


def score(
    facts: LakeFacts,
    policy: MaintenancePolicy,
    *,
    differs: Repair = "",
    standing: tuple[str, str] = ("", ""),
) -> Health:
    """differs: what mends the difference that its newest verification found, "" = it
    found none. standing: how it stands (`ingest.pipelines.table_status`), and why."""
    issues = [
        *_stopped(*standing),
        *_broken(facts, differs),
        *_stuck(facts, policy),
        *_slow(facts, policy),
    ]
    issues.sort(key=lambda issue: -issue.points)
    return Health(max(0, 100 - sum(issue.points for issue in issues)), tuple(issues))


def _stopped(standing: str, why: str) -> Iterator[HealthIssue]:
    if standing in STOPPED:
        points, code, reason, repair = STOPPED[standing]
        yield HealthIssue(code, points, joined([reason, why], STOP), repair)


def _broken(facts: LakeFacts, differs: Repair) -> Iterator[HealthIssue]:
    if facts.is_gone:
        yield HealthIssue(
            "files_gone",
            60,
            "its files are gone from the lake, and Sluice did not remove them: nothing"
            " can be read, and no sync succeeds. The source still has its rows",
            "resync",
        )
    yield from _externally_modified(facts)
    if facts.conflicts_total:
        one = facts.conflicts[0]
        yield _issue(
            "bucket_conflict",
            40,
            "buckets with several file groups: %(count)s, bucket"
            " %(bucket)s for one; rows may be there twice, and Hudi"
            " refuses to write to such a bucket",
            "deduplicate",
            count=facts.conflicts_total,
            bucket=one.bucket,
        )
    if facts.strays:
        yield _issue(
            "stray_files",
            30,
            "base files that a superseded writer finished too late:"
            " %(count)s; readers could take one for the commit's own",
            "clean",
            count=facts.strays,
        )
    if facts.foreign_index:
        yield HealthIssue(
            "metadata_table",
            10,
            "another writer made a metadata table, which Sluice does not keep up: its"
            " next commit or compaction removes it, until then readers believe it",
            "drop-metadata-table",
        )
    if differs:
        yield HealthIssue(
            "differs_from_source",
            30,
            "the newest verification found rows that are not as at the source",
            differs,
        )


def _externally_modified(facts: LakeFacts) -> Iterator[HealthIssue]:
    """What only a writer outside Sluice does."""
    if facts.taken:
        found = joined(
            Sentence(
                "%(found)s stands in the fence for %(scope)s, where %(ours)s"
                " was the last token that Sluice gave out",
                found=t.found,
                scope=t.scope,
                ours=t.ours,
            )
            for t in facts.taken
        )
        yield _issue(
            "lock_taken",
            50,
            "another owner has the table's lock: %(found)s. No job can"
            " commit before it is taken back",
            "rollback",
            found=found,
        )
    if facts.altered:
        yield _issue(
            "properties_drift",
            40,
            "a writer outside Sluice changed the table's"
            " hoodie.properties: %(altered)s. Sluice refuses to write"
            " until they are put back",
            "rollback",
            altered="; ".join(facts.altered),
        )
    yield from _miswritten(facts)


def _miswritten(facts: LakeFacts) -> Iterator[HealthIssue]:
    if facts.future:
        yield _issue(
            "future_commit",
            50,
            "a driver whose clock was ahead made %(count)s of the future,"
            " %(future)s in UTC for one: nothing can be written before"
            " that moment, unless they are taken away. No row is lost by"
            " that",
            "rollback",
            count=counted(len(facts.future), "commit"),
            future=facts.future[-1],
        )
    if facts.buckets and facts.highest_bucket >= facts.buckets:
        count = counted(facts.buckets, "bucket")
        yield _issue(
            "bucket_drift",
            40,
            "a writer used another number of buckets: there are rows in"
            " bucket %(highest_bucket)s, and the table has %(count)s,"
            " counted from 0. Rows may be there twice, and later changes"
            " miss them",
            "deduplicate",
            highest_bucket=facts.highest_bucket,
            count=count,
        )


def _stuck(facts: LakeFacts, policy: MaintenancePolicy) -> Iterator[HealthIssue]:
    for pending in facts.pending:
        if not is_stuck(pending, policy.stuck_after_seconds):
            continue
        way = next(iter(ways_out(pending)), Way(""))
        yield HealthIssue(
            *_standing(pending),
            way.repair,
            way.instant,
            action=pending.action,
            state=pending.state,
        )


def _standing(pending: Pending) -> tuple[str, int, str]:
    """Code, points and reason of an instant without a running job."""
    name, lasts = named(pending.action, pending.instant), span(pending.age_seconds)
    if not pending.is_readable:
        return (
            "plan_unreadable",
            50,
            Sentence(
                "the request of %(name)s is gone or damaged: the table can"
                " neither be read nor written until the plan is removed",
                name=name,
            ),
        )
    is_begun = pending.state == "INFLIGHT"
    if pending.action == "compaction" and not is_begun:
        waits = Sentence("%(name)s waits for %(span)s", name=name, span=lasts)
        return "compaction_waits", 15, joined([waits, _blocks(pending)])
    stands = Sentence(
        "%(name)s is %(state)s for %(span)s and no job works on it",
        name=name,
        state=STATES.get(pending.state, pending.state.lower()),
        span=lasts,
    )
    reason = joined([stands, _blocks(pending)])
    if pending.action == "compaction":
        return "compaction_stuck", 25, reason
    return "write_stuck", 10, reason


def is_stuck(pending: Pending, after_seconds: float) -> bool:
    """Inflight without a job is stuck at once; what is only planned, after a while."""
    return not pending.is_held and stuck_in(pending, after_seconds) <= 0


def stuck_in(pending: Pending, after_seconds: float) -> float:
    """Seconds until it counts as stuck, if no job works on it then."""
    is_plan = pending.action == "compaction" and pending.state == "REQUESTED"
    limit = after_seconds if is_plan and pending.is_readable else GRACE_SECONDS
    return limit - pending.age_seconds


def _blocks(pending: Pending) -> str:
    parts = []
    if pending.plan is not None and pending.plan.groups:
        groups = counted(pending.plan.groups, "file group")
        parts.append(
            Sentence("its %(groups)s is not compacted again", groups=groups)
            if pending.plan.groups == 1
            else Sentence("its %(groups)s are not compacted again", groups=groups)
        )
    if pending.behind:
        later = counted(pending.behind, "later instant")
        parts.append(Sentence("%(later)s cannot be archived", later=later))
    return joined(parts, Sentence("%(first)s and %(then)s"))


def _slow(facts: LakeFacts, policy: MaintenancePolicy) -> Iterator[HealthIssue]:
    if facts.merge is None or facts.merge.due_groups:
        yield from _late_merges(facts, policy)
    if facts.merge is not None:
        yield from _missed_goals(facts.merge)
    yield from _long_timeline(facts)
    if facts.rollbacks_of_a_day > MOST_ROLLBACKS:
        yield _issue(
            "many_rollbacks",
            5,
            "%(count)s rollbacks within a day: jobs of this"
            " table keep being cut off; look at them",
            count=facts.rollbacks_of_a_day,
        )
    yield from _badly_cut(facts)


def _long_timeline(facts: LakeFacts) -> Iterator[HealthIssue]:
    """What a replacement holds goes by itself, once nobody reads the old files."""
    if facts.instants - facts.held_instants > MOST_INSTANTS:
        yield _issue(
            "long_timeline",
            10,
            "%(instants)s instants are on the active timeline: every read"
            " lists them. A compaction also cleans and archives",
            "compact",
            instants=facts.instants,
        )
    elif facts.savepoints and facts.instants > MOST_INSTANTS:
        first = facts.savepoints[-1]
        yield _issue(
            "long_timeline",
            10,
            "%(instants)s instants are on the active timeline: every read"
            " lists them. The savepoint of %(instant)s keeps them until it goes",
            instants=facts.instants,
            instant=first.instant,
        )


def _missed_goals(merge: MergeCost) -> Iterator[HealthIssue]:
    """What no compaction within the budget mends."""
    if merge.misses_readers_goal:
        yield _issue(
            "readers_goal",
            5,
            "reading takes about %(ratio)s times as long as after a"
            " compaction, and that would write %(needs)s bytes per byte"
            " changed; max_write_amplification is %(allowed)s: raise it,"
            " sync less often, or compact once by hand",
            "compact",
            ratio=f"{merge.ratio:.1f}",
            needs=f"{merge.needs:g}",
            allowed=f"{merge.allowed:g}",
        )
    if merge.is_over_budget:
        yield _issue(
            "write_amplification",
            5,
            "%(measured)s bytes were written today per byte changed;"
            " max_write_amplification is %(allowed)s: compactions were"
            " asked for by hand, or log files became too many to leave",
            measured=f"{merge.measured:g}",
            allowed=f"{merge.allowed:g}",
        )


def _late_merges(facts: LakeFacts, policy: MaintenancePolicy) -> Iterator[HealthIssue]:
    """Log files that are not merged though the budget allows it."""
    is_worth_it = facts.log_bytes >= LEAST_LOG_BYTES
    if is_worth_it and facts.log_ratio > policy.compact_log_ratio:
        points = min(15, 5 + int(5 * facts.log_ratio / policy.compact_log_ratio))
        yield _issue(
            "log_ratio",
            points,
            "readers merge %(log_ratio)s bytes of log files per byte of"
            " base files; the policy says %(wanted)s",
            "compact",
            log_ratio=f"{facts.log_ratio:.1f}",
            wanted=f"{policy.compact_log_ratio:g}",
        )
    if facts.most_logs > MOST_LOGS:
        yield _issue(
            "many_logs",
            10,
            "a file group has %(most_logs)s log files to merge, more than %(most)s",
            "compact",
            most_logs=facts.most_logs,
            most=MOST_LOGS,
        )
    if facts.is_slow and facts.delta_commits > 2 * policy.compact_after:
        yield _issue(
            "compaction_late",
            10,
            "%(delta_commits)s commits since the last compaction; the"
            " policy says one after %(compact_after)s",
            "compact",
            delta_commits=facts.delta_commits,
            compact_after=policy.compact_after,
        )


def _badly_cut(facts: LakeFacts) -> Iterator[HealthIssue]:
    if is_skewed(facts):
        yield _resize(
            "bucket_skew",
            facts,
            Sentence(
                "the largest bucket has %(skew)s times the bytes of a usual"
                " one: one task does most of the work",
                skew=f"{facts.skew:g}",
            ),
        )
    if facts.base_files >= SMALL_GROUPS:
        average = facts.base_bytes / facts.base_files
        if average < SMALL_BYTES:
            yield _resize(
                "small_files",
                facts,
                Sentence(
                    "%(base_files)s base files of %(average)s on average",
                    base_files=facts.base_files,
                    average=sized(average),
                ),
            )


def _resize(code: str, facts: LakeFacts, reason: str) -> HealthIssue:
    fit = suggest_buckets(facts)
    if fit is None:
        return _issue(
            code,
            5,
            "%(reason)s; another number of buckets would not help",
            reason=reason,
        )
    count = counted(fit.buckets, "bucket")
    told = Sentence(
        "%(reason)s; %(count)s instead of %(buckets)s would do",
        reason=reason,
        count=count,
        buckets=facts.buckets,
    )
    return HealthIssue(code, 5, told, "resize", buckets=fit.buckets)
