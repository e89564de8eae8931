"""Cleaning leaves what running queries need, whether or not its instants are archived."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from ingest.contract import members
from ingest.contract.written import Totals
from ingest.lake.hudi import keeping
from ingest.lake.hudi.keeping import (
    VERSION,
    Cleaning,
    Kept,
    Moment,
    is_tidying_due,
    next_cleaning,
)
from ingest.lake.hudi.timeline import Timeline, ended_savepoints, instant_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> str:
    return instant_of(START + timedelta(seconds=second))


def instants(*rows: str) -> Timeline:
    """`asked-completed action` in seconds; without completed: pending."""
    names = []
    for row in rows:
        when, _, action = row.partition(" ")
        asked, _, done = when.partition("-")
        kind = "commit" if action == "compaction" and done else action
        names.append(f"{at(int(asked))}.{action}.requested")
        if done:
            names.append(f"{at(int(asked))}_{at(int(done))}.{kind}")
    return Timeline.of(names)


def clean(kept: Kept, timeline: Timeline, *, second: float, seconds: float) -> Cleaning:
    now = START + timedelta(seconds=second)
    return next_cleaning(kept, timeline, seconds=seconds, now=now)


QUERIES = [
    # (what the timeline has, how long a query may take at second 40, from where on)
    pytest.param(
        ["1-2 deltacommit", "3-4 deltacommit", "30-31 deltacommit"], 15, 3,
        id="one-since-and-the-one-before",
    ),
    pytest.param(
        ["1-2 deltacommit", "3-4 deltacommit", "5-30 compaction",
         "6-7 deltacommit", "30-31 deltacommit"], 15, 5,
        id="a-compaction-that-ended-since-was-asked-for-before",
    ),
    pytest.param(
        ["1-2 deltacommit", "3-4 deltacommit", "30 compaction"], 15, 3,
        id="what-is-planned-is-behind-the-newest",
    ),
    pytest.param(
        ["1-2 deltacommit", "3 compaction", "5-6 deltacommit"], 15, 3,
        id="what-is-planned-may-replace-what-a-reader-has",
    ),
    pytest.param(
        ["1-2 deltacommit", "30-31 clean", "31-32 rollback"], 15, 1,
        id="cleans-do-not-count",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "seconds", "first"), QUERIES)
def test_files_are_kept_for_the_longest_query(
    rows: list[str], seconds: float, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = instants(*rows)
    assert clean(Kept(), timeline, second=40, seconds=seconds).kept.first == at(
        min(int(row.partition("-")[0].partition(" ")[0]) for row in rows)
    ), "the newest ten commits stay, however old they are"
    monkeypatch.setattr(keeping, "LEAST_COMMITS", 1)
    found = clean(Kept(), timeline, second=40, seconds=seconds)
    assert (found.kept.first, found.looks) == (at(first), True)


def test_what_is_archived_is_known_from_the_cleanings_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "LEAST_COMMITS", 1)
    kept = clean(Kept(), instants("1-2 commit"), second=3, seconds=100).kept
    assert (kept.first, kept.whole) == (at(1), "")
    timeline = instants("5-30 compaction", "28-29 deltacommit")
    # the load is archived, and a reader who began before second 30 has its files
    kept = clean(kept, timeline, second=40, seconds=100).kept
    assert kept.first == at(1)
    timeline = instants("95-96 deltacommit")
    for second, first, looks in [
        (97, 1, False),
        (139, 1, False),  # by what was noted at second 3
        (141, 28, True),  # at second 40 the compaction was done
        (198, 95, False),  # no base file was made since
    ]:
        found = clean(kept, timeline, second=second, seconds=100)
        assert (found.kept.first, found.looks) == (at(first), looks), second
        kept = found.kept


def test_partitions_are_looked_at_when_a_savepoint_ended() -> None:
    names = [f"{at(1)}_{at(2)}.commit", f"{at(1)}_{at(3)}.savepoint"]
    kept = clean(Kept(), Timeline.of(names), second=9, seconds=0).kept
    found = clean(kept, Timeline.of(names), second=19, seconds=0)
    assert (found.looks, found.kept.savepoints) == (False, (at(1),))
    found = clean(found.kept, Timeline.of(names[:1]), second=29, seconds=0)
    assert (found.looks, found.kept.savepoints) == (True, ())


def test_the_notes_stay_few_and_are_read_again() -> None:
    kept = Kept(counted=Totals(at(1), {"commit": 2}, {"commit": 3}))
    for second in range(0, 4_000, 7):
        timeline = instants(
            *(f"{second + n}-{second + n + 1} deltacommit" for n in (1, 3))
        )
        kept = clean(kept, timeline, second=second + 5, seconds=1_800).kept
        assert len(kept.moments) <= 12
    assert members.decode(Kept, members.encode(kept, version=1), newest=VERSION) == kept


def test_nothing_goes_by_notes_that_another_release_may_have_left_out() -> None:
    """Without them cleaning is put off by the time that a query may take."""
    kept = Kept(first=at(50))
    found = clean(kept, instants("1-2 deltacommit"), second=90, seconds=10)
    assert (found.kept.first, found.looks) == (at(50), False)
    assert found.kept.moments == (Moment(at(90), at(1), ""),)


@dataclass
class Table:
    """A file group as Hudi keeps it. wholes: base files that lie there, by asked →
    completed; logs are deleted with the base file below them. active: action and
    completion of what is not archived."""

    limit: int
    wholes: dict[int, int] = field(default_factory=lambda: {0: 1})
    active: dict[int, tuple[str, int | None]] = field(
        default_factory=lambda: {0: ("commit", 1)}
    )
    ends: dict[int, int] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)

    def begin(self, second: int, action: str, takes: int) -> None:
        is_compacted = any(
            done is None and action == other for other, done in self.active.values()
        )
        if action == "deltacommit" or not is_compacted:
            self.active[second] = (action, None)
            self.ends[second] = second + takes

    def complete(self, second: int) -> None:
        for asked in [asked for asked, ends in self.ends.items() if ends <= second]:
            action, _ = self.active[asked]
            self.active[asked] = (action, second)
            if action == "compaction":
                self.wholes[asked] = second
            del self.ends[asked]

    def read(self, second: int) -> int:
        return max(asked for asked, done in self.wholes.items() if done <= second)

    def tidy(self, second: int, leave: int) -> None:
        rows = (
            f"{asked} {action}" if done is None else f"{asked}-{done} {action}"
            for asked, (action, done) in self.active.items()
        )
        found = clean(self.kept, instants(*rows), second=second, seconds=self.limit)
        assert found.kept.first >= self.kept.first
        self.kept = found.kept
        old = sorted(asked for asked in self.wholes if at(asked) < self.kept.first)
        for asked in old[:-1] if found.looks else ():
            del self.wholes[asked]
        # as Hudi's archiver: the oldest, up to the first that is not completed
        for asked in sorted(self.active)[: len(self.active) - leave]:
            if self.active[asked][1] is None:
                return
            del self.active[asked]


@pytest.mark.parametrize("seed", range(40))
def test_no_reader_loses_a_file_and_every_old_one_goes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits, compactions that take long, and cleanings at any time; readers who began
    within the time that a query may take."""
    chance = random.Random(seed)
    monkeypatch.setattr(keeping, "LEAST_COMMITS", chance.choice((1, 3)))
    table = Table(chance.choice((0, 30, 200)))
    readers: list[tuple[int, int]] = []
    for second in range(2, 1_200):
        table.complete(second)
        what = chance.random()
        if what < 0.4:
            table.begin(second, "deltacommit", chance.choice((1, 1, 2, 15)))
        elif what < 0.43:
            table.begin(second, "compaction", chance.choice((1, 9, 120)))
        elif what < 0.6:
            readers.append((second, table.read(second)))
        elif what < 0.65:
            table.tidy(second, chance.choice((4, 9)))
        readers = [one for one in readers if second - one[0] <= table.limit]
        assert all(file in table.wholes for _, file in readers), second
        assert table.read(second) in table.wholes
    for number in range(1, 9):
        second = 2_000 + number * (table.limit + 9)
        table.begin(second, "deltacommit", 1)
        table.complete(second + 1)
        table.tidy(second + 2, 4)
    assert len(table.wholes) == 1


def test_the_days_of_a_savepoint_count_from_when_it_was_made() -> None:
    """Not from its commit, which may be the last one of a table since long ago."""
    commit, made = "20260101000000000", "20260120000000000"
    names = [f"{commit}_{commit}.deltacommit", f"{commit}_{made}.savepoint"]
    timeline = Timeline.of(names)
    for day, ended in ((21, []), (26, []), (28, [commit])):
        now = datetime(2026, 1, day, tzinfo=UTC)
        assert ended_savepoints(timeline, now=now) == ended


TIDYING = [
    # (writes before the newest cleaning, what follows it, whether to clean: each three
    # writes, where two stay)
    pytest.param(0, ["deltacommit"] * 4, False, id="of-a-few-nothing-goes"),
    pytest.param(0, ["deltacommit"] * 5, True, id="the-third-beyond-those-that-stay"),
    pytest.param(0, ["deltacommit"] * 6, True, id="one-look-too-late-is-not-never"),
    pytest.param(6, ["clean", *["deltacommit"] * 2], False, id="just-cleaned"),
    pytest.param(6, ["clean", *["deltacommit"] * 3], True, id="the-third-behind-it"),
    pytest.param(
        6, ["clean", "deltacommit", "compaction", "deltacommit"], True,
        id="a-plan-that-came-with-a-commit-counts",
    ),
    pytest.param(
        9, ["clean", "rollback", "deltacommit"], False, id="whatever-could-not-go"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "behind", "is_due"), TIDYING)
def test_a_sync_tidies_by_what_came_since_the_last_time(
    before: int, behind: list[str], is_due: bool
) -> None:
    actions = ["deltacommit"] * before + behind
    timeline = instants(*(f"{n}-{n} {action}" for n, action in enumerate(actions)))
    assert is_tidying_due(timeline, each=3, beyond=2) == is_due


@pytest.mark.parametrize("compact_after", range(1, 8))
def test_no_plan_makes_a_sync_step_over_its_turn(compact_after: int) -> None:
    """A look sees the plan that followed the commit before together with the next."""
    actions: list[str] = []
    gaps: list[int] = []
    commits = since = 0
    while len(actions) < 200:
        actions.append("deltacommit")
        commits, since = commits + 1, since + 1
        timeline = instants(*(f"{n}-{n} {a}" for n, a in enumerate(actions)))
        if is_tidying_due(timeline, each=40, beyond=20):
            actions.append("clean")
            gaps.append(since)
            since = 0
        if commits % compact_after == 0:
            actions.append("compaction")
            since += 1
    first, *others = gaps
    assert first <= 61
    assert {40, 41} >= set(others)
