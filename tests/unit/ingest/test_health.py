"""Layout, facts, score, plan and quiet hours: tables of small cases, no files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time

import pytest
from django.utils import translation

from core.translation import translated
from ingest.lake.hudi.descriptions import ACTIONS, STATES
from ingest.lake.hudi.layout import TableFile, bucket_of, layout_of, parse_file
from ingest.lake.hudi.timeline import Timeline
from ingest.maintenance.duplicates import (
    Duplicates,
    Signs,
    bucket_for,
    likely_cause,
    words_for,
)
from ingest.maintenance.facts import (
    MB,
    Conflict,
    LakeFacts,
    Pending,
    PlanFacts,
    TakenLock,
    facts_from,
    in_buckets,
    read_facts,
)
from ingest.maintenance.merging import MergeCost
from ingest.maintenance.plan import plan_maintenance
from ingest.maintenance.savepoints import Savepoint
from ingest.maintenance.score import score
from ingest.pipelines.policies.maintenance import MaintenancePolicy, opens_at
from ingest.pipelines.policies.maintenance import MaintenanceWindow as Window

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE, TWO = (
    "00000000-aaaa-bbbb-cccc-000000000001",
    "00000001-aaaa-bbbb-cccc-000000000002",
)
POLICY = MaintenancePolicy()


def at(minute: int, hour: int = 11) -> str:
    return f"20260101{hour:02d}{minute:02d}00000"


def base(file_id: str, instant: str, size: int = 100, partition: str = "") -> TableFile:
    return TableFile(partition, f"{file_id}_0-1-2_{instant}.parquet", size)


def log(file_id: str, instant: str, size: int = 10, partition: str = "") -> TableFile:
    return TableFile(partition, f".{file_id}_{instant}.log.1_0-9-13", size)


LOADED = [f"{at(0)}.commit.requested", f"{at(0)}.inflight", f"{at(0)}_{at(1)}.commit"]
CHANGED = [f"{at(5)}.deltacommit.requested", f"{at(5)}_{at(6)}.deltacommit"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (base(ONE, at(0)).name, ("base", ONE, at(0))),
        (log(ONE, at(5)).name, ("log", ONE, at(5))),
        (".hoodie_partition_metadata", None),
        ("part-0000.parquet", None),
    ],
)
def test_names_of_files(name: str, expected: object) -> None:
    found = parse_file(name)
    told = (found.kind, found.file_id, found.instant) if found else None
    assert told == expected


def test_a_layout_tells_live_old_and_unfinished_files_apart() -> None:
    timeline = Timeline.of(
        [
            *LOADED,
            *CHANGED,
            f"{at(10)}.compaction.requested",
            f"{at(10)}_{at(12)}.commit",
            f"{at(11)}_{at(13)}.deltacommit",
            f"{at(20)}.compaction.inflight",
        ]
    )
    files = [
        base(ONE, at(0)),
        log(ONE, at(5)),
        base(ONE, at(10), 130),
        # asked before the compaction completed, done after it was planned
        log(ONE, at(11), 20),
        base(ONE, at(20), 7),
        base(TWO, at(0), 50),
        log(TWO, at(5)),
    ]
    layout = layout_of(files, timeline, {("", TWO): at(12)})
    (group,) = layout.groups
    assert (group.base_bytes, group.log_files, group.log_bytes) == (130, 1, 20)
    assert group.oldest_log == at(11)
    assert (layout.old_files, layout.old_bytes) == (4, 170)
    assert (layout.unfinished_files, layout.unfinished_bytes) == (1, 7)
    assert layout.conflicts == {}


def test_files_of_archived_instants_count_and_two_groups_of_a_bucket_are_seen() -> None:
    timeline = Timeline.of(CHANGED)
    other = ONE.replace("aaaa", "dddd")
    files = [
        base(ONE, at(0), partition="p=1"),
        base(other, at(1), partition="p=1"),
        base(other, at(1), partition="p=2"),
    ]
    layout = layout_of(files, timeline, {})
    assert len(layout.groups) == 3
    assert layout.conflicts == {("p=1", 0): (ONE, other)}
    assert bucket_of(ONE) == 0


def test_two_base_files_of_one_instant_are_twins() -> None:
    timeline = Timeline.of(LOADED)
    late = TableFile("", f"{ONE}_0-0-0_{at(0)}.parquet", 90)
    layout = layout_of([base(ONE, at(0)), late, base(TWO, at(0))], timeline, {})
    (twins,) = layout.twins
    assert (twins.file_id, twins.instant) == (ONE, at(0))
    assert set(twins.names) == {base(ONE, at(0)).name, late.name}
    facts = read_facts(timeline, layout, now=NOW)
    (issue,) = score(facts, POLICY).issues
    assert (issue.code, issue.repair) == ("stray_files", "clean")


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        (f"{at(5)}_{at(6)}.replacecommit", 2),
        (f"{at(3)}_{at(9)}.savepoint", 2),
        (f"{at(9)}_{at(10)}.clean", 0),
    ],
)
def test_what_hides_old_files_holds_the_instants_behind_it(
    holder: str, held: int
) -> None:
    """Hudi archives nothing behind a savepoint or a replacement."""
    names = [*LOADED, f"{at(3)}_{at(4)}.deltacommit", f"{at(7)}_{at(8)}.deltacommit"]
    timeline = Timeline.of([*names, holder])
    facts = read_facts(timeline, layout_of([], timeline, {}), now=NOW)
    assert facts.held_instants == held


def test_a_savepoint_hides_no_commit() -> None:
    names = [*LOADED, f"{at(0)}_{at(9)}.savepoint", f"{at(0)}.savepoint.inflight"]
    for order in (names, names[::-1]):
        timeline = Timeline.of(order)
        assert [i.action for i in timeline.completed_writes] == ["commit"]
        assert timeline.savepoints == {at(0): at(9)}


@pytest.mark.parametrize(
    ("kept", "later"),
    [
        (at(0), [at(2), at(3), at(4), at(8)]),
        (at(4), [at(8)]),
        # it ended last, and its savepoint holds all of the rows
        (at(2), [at(8)]),
        (at(8), []),
    ],
)
def test_what_is_behind_a_commit_is_what_hudi_takes_away_for_it(
    kept: str, later: list[str]
) -> None:
    """Minute 2: a compaction; it ended when those of 3 and 4 had."""
    names = [
        *LOADED,
        f"{at(2)}.compaction.requested",
        f"{at(3)}_{at(4)}.deltacommit",
        f"{at(4)}_{at(5)}.deltacommit",
        f"{at(2)}_{at(6)}.commit",
        f"{at(8)}_{at(9)}.deltacommit",
    ]
    behind = Timeline.of(names).writes_after(kept)
    assert sorted(i.asked for i in behind) == later


def test_facts_say_what_is_pending_and_survive_json() -> None:
    names = [
        *LOADED,
        *CHANGED,
        f"{at(7)}.compaction.requested",
        f"{at(7)}.compaction.inflight",
        f"{at(30)}_{at(31)}.deltacommit",
        f"{at(40)}_{at(41)}.rollback",
        f"{at(50)}.deltacommit.requested",
        f"{at(0)}_{at(9)}.savepoint",
    ]
    timeline = Timeline.of(names)
    files = [base(ONE, at(0), 3 * MB), log(ONE, at(5), MB), base(TWO, at(0), 30 * MB)]
    layout = layout_of(files, timeline, {})
    facts = read_facts(
        timeline,
        layout,
        now=NOW,
        held=frozenset({"write"}),
        plans={at(7): PlanFacts(2, 5, is_readable=True)},
    )
    facts = in_buckets(facts, layout, 2)
    assert facts_from(facts.to_json()) == facts
    compaction, write = facts.pending
    assert (compaction.action, compaction.state) == ("compaction", "INFLIGHT")
    assert (compaction.is_held, compaction.age_seconds, compaction.behind) == (
        False,
        53 * 60,
        2,
    )
    assert compaction.plan == PlanFacts(2, 5)
    assert (write.is_held, write.plan) == (True, None)
    assert (facts.delta_commits, facts.rollbacks_of_a_day) == (2, 1)
    assert facts.sizes == (0, 1, 1, 0, 0, 0)
    assert facts.bucket_bytes == (4 * MB, 30 * MB)
    assert facts.bucket_log_bytes == (MB, 0)
    assert facts.rollbacks == (at(40),)
    assert facts.commits[0].seconds == 60.0
    assert facts.oldest_log_at == "2026-01-01T11:05:00Z"
    assert facts.compacted_at == "2026-01-01T11:01:00Z"
    (kept,) = facts.savepoints
    assert (kept.instant, kept.at) == (at(0), "2026-01-01T11:01:00Z")
    assert kept.made_at == "2026-01-01T11:09:00Z"
    assert kept.ends_at == "2026-01-08T11:09:00Z"
    assert kept.later == len(timeline.completed_writes) - 1


WELL = LakeFacts(at="2026-01-01T12:00:00Z", groups=2, base_files=2, base_bytes=100 * MB)
SAVED = Savepoint(at(0), None, None, None, 1_800)
STUCK = Pending(at(0), "compaction", "INFLIGHT", 600, False, 3, PlanFacts(2, 10))


@pytest.mark.parametrize(
    ("facts", "issues"),
    [
        (WELL, []),
        (replace(WELL, pending=(STUCK,)), [("compaction_stuck", 25, "rollback")]),
        (replace(WELL, pending=(replace(STUCK, is_held=True),)), []),
        (replace(WELL, pending=(replace(STUCK, age_seconds=20.0),)), []),
        (replace(WELL, pending=(replace(STUCK, state="REQUESTED"),)), []),
        (
            replace(
                WELL, pending=(replace(STUCK, state="REQUESTED", age_seconds=9e3),)
            ),
            [("compaction_waits", 15, "compact")],
        ),
        (
            replace(WELL, pending=(replace(STUCK, plan=PlanFacts(is_readable=False)),)),
            [("plan_unreadable", 50, "unschedule-compaction")],
        ),
        (
            replace(WELL, pending=(replace(STUCK, action="deltacommit", plan=None),)),
            [("write_stuck", 10, "rollback")],
        ),
        (
            replace(WELL, conflicts_total=1, conflicts=(Conflict("", 3),)),
            [("bucket_conflict", 40, "deduplicate")],
        ),
        (
            replace(WELL, taken=(TakenLock("write", "99", 7),)),
            [("lock_taken", 50, "rollback")],
        ),
        (replace(WELL, is_gone=True), [("files_gone", 60, "resync")]),
        (
            replace(WELL, altered=("hoodie.x is 'a' in the lake, 'b' in the plan",)),
            [("properties_drift", 40, "rollback")],
        ),
        (
            replace(WELL, buckets=2, highest_bucket=3),
            [("bucket_drift", 40, "deduplicate")],
        ),
        (replace(WELL, buckets=2, highest_bucket=1), []),
        (replace(WELL, buckets=0, highest_bucket=3), []),
        (replace(WELL, log_bytes=300 * MB), [("log_ratio", 15, "compact")]),
        (replace(WELL, base_bytes=100, log_bytes=300), []),
        (replace(WELL, most_logs=101), [("many_logs", 10, "compact")]),
        (replace(WELL, delta_commits=21, merge=MergeCost(due_groups=1)), []),
        (replace(WELL, delta_commits=21), [("compaction_late", 10, "compact")]),
        (replace(WELL, instants=151), [("long_timeline", 10, "compact")]),
        (replace(WELL, instants=150), []),
        (replace(WELL, instants=1_900, held_instants=1_800), []),
        (
            replace(WELL, instants=1_900, held_instants=1_800, savepoints=(SAVED,)),
            [("long_timeline", 10, "")],
        ),
        (replace(WELL, rollbacks_of_a_day=6), [("many_rollbacks", 5, "")]),
        (replace(WELL, skew=5.0), [("bucket_skew", 5, "")]),
        (replace(WELL, base_files=16, base_bytes=16 * MB), [("small_files", 5, "")]),
    ],
)
def test_every_lost_point_has_a_reason_and_names_its_repair(
    facts: LakeFacts, issues: list[tuple[str, int, str]]
) -> None:
    health = score(facts, POLICY)
    assert [(x.code, x.points, x.repair) for x in health.issues] == issues
    assert health.score == 100 - sum(points for _, points, _ in issues)
    assert all(x.reason and len(x.reason) > 20 for x in health.issues)
    worse = score(facts, POLICY, differs="repair")
    assert worse.score == max(0, health.score - 30)


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize("state", sorted(STATES))
def test_what_is_unfinished_is_named_in_the_language_of_its_reader(
    action: str, state: str
) -> None:
    pending = replace(STUCK, action=action, state=state, age_seconds=9e3, plan=None)
    (issue,) = score(replace(WELL, pending=(pending,)), POLICY).issues
    assert issue.reason.startswith(f"{action} {STUCK.instant} ")
    with translation.override("zh-hans"):
        told = translated(issue.reason)
    assert action not in told
    assert state.lower() not in told


def test_what_somebody_else_did_is_told_with_both_values() -> None:
    facts = replace(
        WELL,
        buckets=2,
        highest_bucket=3,
        altered=("hoodie.x is 'a' in the lake, 'b' in the plan",),
        taken=(TakenLock("write", "99", 7), TakenLock("service", "junk", 5)),
    )
    assert facts_from(facts.to_json()) == facts
    said = {issue.code: issue.reason for issue in score(facts, POLICY).issues}
    assert all(w in said["lock_taken"] for w in ("99", "7", "junk", "5", "service"))
    assert all(w in said["bucket_drift"] for w in ("bucket 3", "2 buckets"))
    assert facts.altered[0] in said["properties_drift"]


FREE = replace(STUCK, state="REQUESTED")
BUSY = replace(WELL, log_files=1, delta_commits=10, written_at="2026-01-01T11:55:01Z")


@pytest.mark.parametrize(
    ("facts", "policy", "steps"),
    [
        (WELL, POLICY, []),
        (replace(WELL, pending=(FREE,)), POLICY, ["execute"]),
        (replace(WELL, pending=(STUCK,)), POLICY, ["execute"]),
        (replace(WELL, pending=(replace(FREE, is_held=True),)), POLICY, []),
        (replace(WELL, log_files=1, delta_commits=10), POLICY, ["schedule"]),
        (replace(WELL, log_files=0, delta_commits=10), POLICY, []),
        # rows come: whoever commits them plans, until readers notice what waits
        (replace(BUSY, merge=MergeCost(ratio=1.5, due_groups=1)), POLICY, []),
        (replace(BUSY, merge=MergeCost(ratio=2.1, due_groups=1)), POLICY, ["schedule"]),
        (
            replace(
                BUSY,
                merge=MergeCost(ratio=1.1, due_groups=1),
                written_at="2026-01-01T11:55:00Z",
            ),
            POLICY,
            ["schedule"],
        ),
        (replace(WELL, log_files=1, log_bytes=256 * MB), POLICY, ["schedule"]),
        (replace(WELL, log_files=1, log_bytes=50 * MB), POLICY, []),
        (
            replace(WELL, log_files=1, log_bytes=50 * MB),
            MaintenancePolicy(compact_log_ratio=0.5),
            ["schedule"],
        ),
        (
            replace(WELL, log_files=1, oldest_log_at="2025-12-31T11:00:00Z"),
            POLICY,
            ["schedule"],
        ),
        # another one is planned already
        (replace(WELL, log_files=1, delta_commits=99, pending=(FREE,)), POLICY, ["execute"]),
        # a person decides first
        (replace(WELL, log_files=1, delta_commits=99, altered=("x",)), POLICY, ["decide"]),
        (
            replace(WELL, pending=(FREE,), taken=(TakenLock("write", "99", 7),)),
            POLICY,
            ["decide"],
        ),
        (replace(WELL, log_files=1, delta_commits=99, conflicts_total=1), POLICY, ["decide"]),
        (
            replace(WELL, pending=(replace(STUCK, plan=PlanFacts(is_readable=False)),)),
            POLICY,
            ["decide"],
        ),
    ],
)  # fmt: skip
def test_what_a_table_needs_next(
    facts: LakeFacts, policy: MaintenancePolicy, steps: list[str]
) -> None:
    assert [s.name for s in plan_maintenance(facts, policy, NOW)] == steps
    night = Window(time(22), time(6))
    later = plan_maintenance(facts, policy, NOW, quiet=night)
    waits = [s for s in later if s.name == "wait"]
    assert bool(waits) == bool(set(steps) & {"execute", "schedule"})
    assert all(s.at == "2026-01-01T22:00:00Z" for s in waits)


@pytest.mark.parametrize(
    ("quiet", "now", "opens"),
    [
        (Window(time(22), time(6)), datetime(2026, 1, 1, 23, tzinfo=UTC), None),
        (Window(time(22), time(6)), datetime(2026, 1, 1, 5, tzinfo=UTC), None),
        (
            Window(time(22), time(6)),
            datetime(2026, 1, 1, 6, tzinfo=UTC),
            datetime(2026, 1, 1, 22, tzinfo=UTC),
        ),
        (
            Window(time(1), time(4)),
            datetime(2026, 1, 1, 4, tzinfo=UTC),
            datetime(2026, 1, 2, 1, tzinfo=UTC),
        ),
        # one in the morning in Berlin is midnight in UTC
        (
            Window(time(1), time(4), "Europe/Berlin"),
            datetime(2026, 1, 1, 20, tzinfo=UTC),
            datetime(2026, 1, 2, 0, tzinfo=UTC),
        ),
    ],
)
def test_quiet_hours(quiet: Window, now: datetime, opens: datetime | None) -> None:
    assert opens_at(quiet, now) == opens


@pytest.mark.parametrize(
    ("found", "signs", "words"),
    [
        (Duplicates(20, 20), Signs(4), ""),
        (Duplicates(30, 20, within=10), Signs(4, 7), "another number of buckets"),
        (Duplicates(30, 20, within=10), Signs(4, 3, misplaced=2), "another number"),
        (Duplicates(40, 20, 20, conflicts=4), Signs(4, 3, loads=2), "loaded 2 times"),
        (Duplicates(21, 20, 1, conflicts=1), Signs(4, 3, loads=1), "ran twice"),
        (Duplicates(21, 20, across=1), Signs(4, 3), "changed their partition"),
        (Duplicates(21, 20, within=1), Signs(4, 3), "outside Sluice"),
    ],
)
def test_the_likely_cause(found: Duplicates, signs: Signs, words: str) -> None:
    cause = likely_cause(found, signs)
    assert words in cause
    assert bool(cause) == bool(words)
    assert cause in words_for(found, cause)


def test_buckets_are_hudis_own() -> None:
    """As Java counts: ["7"].hashCode() is 31 + 55."""
    assert bucket_for(["7"], 1000) == 86
