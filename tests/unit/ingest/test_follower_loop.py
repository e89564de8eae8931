"""The way from a log to segments, over a log of a list: nothing is lost and nothing comes
twice, wherever the process dies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import SluiceError, StaleState, TerminalError
from ingest.contract.following import FollowerState, FollowSpec, FollowTable, SourceLog
from ingest.contract.segments import OP, OPS, XID, Control, Segment
from ingest.contract.table import SourceSpec, TableSpec
from ingest.follower import follower
from ingest.follower.follower import Follower, Stopped
from ingest.lake.chain import ChainIndex, ChainWriter, stream_folder, take_over
from ingest.lake.files import LocalPlace
from ingest.lake.segment_files import read_table
from ingest.sources.port import LogRows
from tests.doubles.log_source import FakeLog, LogSource, Row

NAMES = ("a", "b", "c")
STREAM = "s1"


def spec_of(number: int, name: str) -> TableSpec:
    return TableSpec(number, "public", name, "db", name, "/none", "", (), ("id",))


TABLES = tuple(
    FollowTable(spec_of(number, name), load=f"load {name}")
    for number, name in enumerate(NAMES, start=1)
)


class Died(BaseException):
    """As by kill -9: nothing of ours handles it."""


@dataclass
class ListHost:
    """Says what is in `lists`, one at each look; then stops once all is durable."""

    source: LogSource
    lists: list[tuple[FollowTable, ...]] = field(default_factory=list)
    states: list[FollowerState] = field(default_factory=list)
    looks: int = 0
    # it looks so often at least
    least: int = 3

    def tables(self, seconds: float = 0.0) -> tuple[FollowTable, ...] | None:
        self.looks += 1
        if self.lists:
            return self.lists.pop(0)
        if (
            self.source.told == len(self.source.transactions)
            and self.looks >= self.least
        ):
            raise Stopped
        assert self.looks < 1_000
        return None

    def tell(self, state: FollowerState) -> None:
        self.states.append(state)


@dataclass
class Bench:
    """A source, a lake, and a clock that goes on by itself."""

    lake: Path
    source: LogSource
    host: ListHost

    def run(
        self,
        *tables: FollowTable,
        writer: str = "w",
        above: int = 0,
        quick: float = 100.0,
        begin_anew: bool = False,
        clock: Callable[[], float] | None = None,
        now: float = 1e9,
    ) -> None:
        """quick: seconds between two looks at the clock, unless one is given."""
        spec = FollowSpec(
            SourceSpec(1, "list", "", 0, "", "", ""),
            STREAM, str(self.lake), "", "", above, writer, tables, begin_anew,
        )  # fmt: skip
        follower = Follower(
            self.host,
            spec,
            self.source.open,
            clock or itertools.count(0.0, quick).__next__,
            now=lambda: now,
        )
        with pytest.raises(Stopped):
            follower.run()

    @property
    def segments(self) -> list[Segment]:
        index = ChainIndex(stream_folder(str(self.lake), STREAM), STREAM)
        found = []
        while page := index.refresh():
            found += page
        return found

    def rows(self, name: str) -> list[tuple[int, str, int, str | None]]:
        """(transaction, op, id, v) in the order of segments."""
        number = NAMES.index(name) + 1
        folder = stream_folder(str(self.lake), STREAM)
        return [
            (row[XID], OPS[row[OP]], row["c0"], row["c1"])
            for segment in self.segments
            for part in segment.parts_of(number)
            for row in read_table(folder, segment, part).to_pylist()
        ]

    @property
    def controls(self) -> list[tuple[int, str, int]]:
        return [
            (s.number, c.kind, c.table_id) for s in self.segments for c in s.controls
        ]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    source = LogSource()
    return Bench(tmp_path, source, ListHost(source))


def write(source: LogSource, count: int = 4) -> None:
    for n in range(count):
        source.commit(
            Row("a", "insert", n, "x"),
            Row("b", "insert", n),
            Row("a", "update", n, "y"),
        )
        source.commit(Row("c", "delete", n), Row("unknown", "insert", n))


def expected(source: LogSource, name: str) -> list[tuple[int, str, int, str | None]]:
    return [
        (number, row.op, row.id, row.v)
        for number, rows in enumerate(source.transactions, start=1)
        for row in rows
        if row.table == name
    ]


def test_three_tables_arrive_in_the_order_of_the_log(bench: Bench) -> None:
    write(bench.source)
    bench.run(*TABLES, above=40)
    for name in NAMES:
        assert bench.rows(name) == expected(bench.source, name)
    first = bench.segments[0]
    assert (first.number, first.start, first.server) == (41, "0", "one")
    kinds = [(kind, table) for _, kind, table in bench.controls]
    assert kinds == [(kind, n) for n in (1, 2, 3) for kind in ("added", "cut")]
    # all of it before the first row
    assert {number for number, *_ in bench.controls} == {42}
    state = bench.host.states[-1]
    assert (state.observed, state.rows) == ("following", 16)


def test_transactions_that_come_together_are_one_segment(bench: Bench) -> None:
    write(bench.source)
    bench.run(*TABLES, quick=0.001)
    with_rows = [segment for segment in bench.segments if segment.parts]
    assert len(with_rows) == 1
    assert with_rows[0].committed == len(bench.source.transactions)


def test_a_time_that_cannot_be_is_not_believed(bench: Bench) -> None:
    """A session of MariaDB may set its own: one of last year made changes too old to be
    kept, one of next year made nothing late any more."""
    moments = (80, 10, 1_000, 90)
    for n, seconds in enumerate(moments, start=1):
        bench.source.commit(Row("a", "insert", n))
        bench.source.moments[n] = seconds * 1_000_000
        # each one alone, so that the log has an end behind each
        bench.run(TABLES[0], now=100.0 + n, writer=f"w{n}")
    found = [s.committed / 1e6 for s in bench.segments if s.parts]
    assert found == [80, 80, 103, 103]


def test_what_comes_behind_the_end_of_a_log_is_no_older_than_that(bench: Bench) -> None:
    def late() -> None:
        if bench.source.told == 1 and len(bench.source.transactions) == 1:
            rests.append(1)
            if len(rests) > 20:
                bench.source.commit(Row("a", "insert", 2))

    rests: list[int] = []
    bench.source.commit(Row("a", "insert", 1))
    bench.source.step = late
    bench.host.least = 40
    bench.run(TABLES[0], now=100.0)
    assert [s.committed for s in bench.segments if s.parts] == [1, 100_000_000]


def steps(source: LogSource, monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[int]:
    """Dies at that step: of the log's, or before or behind a change of the lake."""
    count = itertools.count(1)

    def step() -> None:
        if next(count) == at:
            raise Died

    source.step = step
    for name in ("create", "update", "delete"):
        monkeypatch.setattr(LocalPlace, name, _around(getattr(LocalPlace, name), step))
    yield at


def _around(change: object, step: object) -> object:
    def changed(*given: object, **more: object) -> object:
        step()  # type: ignore[operator]
        found = change(*given, **more)  # type: ignore[operator]
        step()  # type: ignore[operator]
        return found

    return changed


def test_a_death_between_any_two_steps_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in itertools.count(1):
        source = LogSource()
        write(source, 2)
        bench = Bench(tmp_path / str(at), source, ListHost(source))
        has_died = False
        with monkeypatch.context() as patched:
            for _ in steps(source, patched, at):
                try:
                    bench.run(*TABLES)
                except Died:
                    has_died = True
        source.step = lambda: None
        bench.host.looks = 0
        bench.run(*TABLES, writer="next")
        for name in NAMES:
            assert bench.rows(name) == expected(source, name), at
        cuts = [(kind, table) for _, kind, table in bench.controls if kind == "cut"]
        assert cuts == [("cut", 1), ("cut", 2), ("cut", 3)], at
        if not has_died:
            break
    assert at > 30


def test_the_source_is_told_what_is_durable_and_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bench.source)

    def step() -> None:
        ends = [int(segment.end) for segment in bench.segments]
        assert bench.source.told <= max(ends, default=0)

    bench.source.step = step
    bench.run(*TABLES)


def test_a_list_is_taken_up_between_transactions(bench: Bench) -> None:
    write(bench.source)
    a, b, c = TABLES
    bench.host.lists = [(a,), (a, b), (replace(a, deferred="late"), b)]
    bench.run(a)
    kinds = [(kind, table) for _, kind, table in bench.controls]
    assert kinds == [
        ("added", 1), ("cut", 1), ("deferred", 1), ("added", 2), ("cut", 2),
    ]  # fmt: skip
    # a transaction came whole, or not at all
    assert bench.rows("a") == expected(bench.source, "a")
    begun = bench.rows("b")[0][0]
    assert bench.rows("b") == [
        one for one in expected(bench.source, "b") if one[0] >= begun
    ]
    bench.host.looks = 0
    bench.run(b, c)
    later = [(kind, table) for _, kind, table in bench.controls][len(kinds) :]
    assert later == [("added", 3), ("cut", 3), ("removed", 1)]


def test_a_table_with_a_problem_stops_no_other(bench: Bench) -> None:
    write(bench.source)
    bench.run(*TABLES)
    write(bench.source)
    bench.source.problems = {2: "no key"}
    bench.host.looks = 0
    bench.run(*TABLES)
    assert bench.controls[-1][1:] == ("deferred", 2)
    assert bench.rows("a") == expected(bench.source, "a")
    about = {one.table_id: one for one in bench.host.states[-1].tables}
    assert (about[2].state, about[2].problem) == ("deferred", "no key")
    assert (about[1].state, about[1].problem) == ("cut", "")


def test_a_load_begins_once_what_prevented_it_is_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a statement that came between its request and its cut: no list comes again."""
    write(bench.source)
    bench.source.problems = {1: "was dropped and made again"}
    follow = FakeLog.follow

    def follow_anew(log: FakeLog, *given: Any, **more: Any) -> None:
        if 1 in more.get("anew", ()):
            bench.source.problems = {}
        follow(log, *given, **more)

    monkeypatch.setattr(FakeLog, "follow", follow_anew)
    bench.run(TABLES[0])
    assert [kind for _, kind, _ in bench.controls] == ["added", "cut"]


def test_a_position_without_rows_moves_on(bench: Bench) -> None:
    for n in range(3):
        bench.source.commit(Row("unknown", "insert", n))
    bench.run(TABLES[0])
    assert bench.source.told == 3
    assert [segment.parts for segment in bench.segments[-1:]] == [()]


def test_a_load_is_complete_as_soon_as_its_place_is_passed(bench: Bench) -> None:
    """Without waiting for the next idle segment, which may take a minute."""
    one = replace(TABLES[0], finished_at="2")
    bench.source.commit(Row("unknown", "insert", 1))
    bench.source.commit(Row("unknown", "insert", 2))
    bench.run(one, quick=0.001)
    assert bench.segments[-1].end == "2"
    assert [c for s in bench.segments for c in s.controls][-1] == Control(
        "finished", 1, at="2"
    )


def test_a_position_that_somebody_waits_for_moves_on_soon(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verification waits until the lake has what the log has now."""
    monkeypatch.setattr(follower, "_AWAITED_SECONDS", 0.0)
    bench.source.commit(Row("unknown", "insert", 1))
    bench.run(replace(TABLES[0], is_awaited=True), quick=0.001)
    assert bench.segments[-1].end == "1"


def test_another_server_is_refused(bench: Bench) -> None:
    write(bench.source)
    bench.run(*TABLES)
    bench.source.name = "two"
    with pytest.raises(SluiceError) as refused:
        bench.run(*TABLES)
    assert refused.value.code == "source_changed"


def test_loads_that_were_over_are_so_at_every_server_that_takes_over(
    bench: Bench,
) -> None:
    """By the place of the first one they would not be known as over by the third."""
    bench.source.commit(Row("a", "insert", 1), Row("b", "insert", 1))
    bench.run(*TABLES)
    over = (replace(TABLES[0], finished_at="1"), replace(TABLES[1], finished_at="9"))
    bench.host.looks = 0
    bench.run(*over, TABLES[2])
    bench.source.took_over = True
    for name in ("two", "three"):
        bench.source.name = name
        bench.host.looks = 0
        bench.run(*over, TABLES[2])
        (claim,) = [s for s in bench.segments if s.server == name and s.controls]
        assert Control("finished", 1, at=claim.end) in claim.controls
        deferred = {c.table_id for c in claim.controls if c.kind == "deferred"}
        assert deferred == ({2, 3} if name == "two" else set())


def test_who_was_superseded_makes_no_segment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bench.source)
    folder = stream_folder(str(bench.lake), STREAM)
    taken: list[ChainWriter] = []

    def step() -> None:
        ends = [segment for segment in bench.segments if segment.parts]
        if ends and not taken:
            taken.append(
                take_over(folder, stream=STREAM, writer="two", server="one", begin="0")
            )

    bench.source.step = step
    with pytest.raises(StaleState) as lost:
        bench.run(*TABLES)
    assert lost.value.code == "superseded"
    assert bench.source.told <= int(taken[0].last.end)
    bench.source.step = lambda: None
    bench.host.looks = 0
    bench.run(*TABLES)
    for name in NAMES:
        assert bench.rows(name) == expected(bench.source, name)


@pytest.mark.parametrize("is_superseded", [True, False])
def test_to_who_was_superseded_no_log_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_superseded: bool
) -> None:
    """The source forgets what the newer reader has."""
    write(bench.source)
    folder = stream_folder(str(bench.lake), STREAM)

    def look(_: FakeLog) -> SourceLog:
        if is_superseded:
            take_over(folder, stream=STREAM, writer="two", server="one", begin="0")
        raise TerminalError("the log behind 1 is gone", code="log_lost")

    monkeypatch.setattr(FakeLog, "look", look)
    with pytest.raises(SluiceError) as ended:
        bench.run(*TABLES)
    assert ended.value.code == ("superseded" if is_superseded else "log_lost")


def test_a_log_that_was_lost_is_passed_over_when_that_was_decided(bench: Bench) -> None:
    """airbyte#80295: the way out of a lost log has to lead out. No table goes on by what
    is not whole, and all do by a new load."""
    write(bench.source)
    bench.run(*TABLES)
    end = bench.segments[-1].end
    write(bench.source)
    bench.source.told = lost = len(bench.source.transactions) - 2
    bench.host.looks = 0
    with pytest.raises(AssertionError, match="forgot"):
        bench.run(*TABLES)
    bench.run(*TABLES, begin_anew=True)
    (passing,) = [
        s for s in bench.segments if s.start != s.end and s.controls and not s.parts
    ]
    assert (passing.start, passing.end) == (end, str(lost))
    why = (
        "reading the source's log was started over, so changes are missing; resync the"
        " table (it forgot)"
    )
    assert passing.controls == tuple(
        Control("deferred", number, reason=why) for number in (1, 2, 3)
    )
    told = bench.host.states[-1].tables
    assert ["missing" in one.problem for one in told] == [True] * 3
    anew = tuple(replace(one, load="anew") for one in TABLES)
    bench.host.looks = 0
    bench.run(*anew, begin_anew=True)
    kinds = [(kind, table) for _, kind, table in bench.controls][-3:]
    assert kinds == [("cut", 1), ("cut", 2), ("cut", 3)]
    assert [one.problem for one in bench.host.states[-1].tables] == [""] * 3
    for name in NAMES:
        assert bench.rows(name) == [
            one for one in expected(bench.source, name) if not int(end) < one[0] <= lost
        ]


def test_what_was_lost_once_defers_the_table_though_it_is_whole_again(
    bench: Bench,
) -> None:
    bench.run(*TABLES)
    bench.source.lost = {1: "it was altered, and altered back", 99: "whose is it"}
    write(bench.source)
    bench.run(*TABLES)
    said = [c for s in bench.segments for c in s.controls if c.kind == "deferred"]
    assert said == [Control("deferred", 1, reason="it was altered, and altered back")]
    # what came before a load is of no use to it
    bench.source.lost = {2: "before its load"}
    write(bench.source, 1)
    bench.run(TABLES[0], replace(TABLES[1], load="anew"), TABLES[2])
    assert bench.controls[-1][1:] == ("cut", 2)


def test_a_log_learns_after_a_death_which_tables_were_loaded(bench: Bench) -> None:
    """Only the stream knows it then: one may have been made again meanwhile."""
    bench.source.identities = {1: "a, the first", 2: "b, the first", 3: ""}
    bench.run(*TABLES)
    bench.source.identities = {1: "a, the second", 2: "b, the second", 3: ""}
    write(bench.source, 1)
    # of one that gets a new load nothing of before matters
    bench.run(TABLES[0], replace(TABLES[1], load="anew"), TABLES[2])
    assert bench.source.loaded == {1: "a, the first"}
    write(bench.source, 1)
    bench.run(TABLES[0], replace(TABLES[1], load="anew"), TABLES[2])
    assert bench.source.loaded == {1: "a, the first", 2: "b, the second"}


def test_a_load_begins_behind_what_its_table_was_before(bench: Bench) -> None:
    """Of who reads the log late: the table was made anew since, or altered."""
    bench.run(*TABLES)
    before = bench.controls
    anew = replace(TABLES[1], load="anew"), FollowTable(spec_of(4, "d"), load="first")
    bench.source.unread = {2, 4}
    write(bench.source, 1)
    bench.run(TABLES[0], *anew, TABLES[2])
    assert bench.controls == before
    bench.source.unread = set()
    write(bench.source, 1)
    bench.run(TABLES[0], *anew, TABLES[2])
    assert [one[1:] for one in bench.controls[len(before) :]] == [
        ("cut", 2), ("added", 4), ("cut", 4),
    ]  # fmt: skip


def test_of_a_table_whose_plan_cannot_be_read_nothing_is_taken(bench: Bench) -> None:
    bench.run(*TABLES)
    why = "its plan cannot be read"
    spoilt = replace(TABLES[0], deferred=why, is_unread=True)
    write(bench.source)
    bench.run(spoilt, *TABLES[1:])
    said = [c for s in bench.segments for c in s.controls if c.kind == "deferred"]
    assert said == [Control("deferred", 1, reason=why)]
    taken = {p.table_id for s in bench.segments for p in s.parts}
    assert taken == {2, 3}


def test_the_segment_that_lacks_rows_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dies behind it would not know."""
    bench.run(*TABLES)
    whole = FakeLog.take

    def take(log: FakeLog) -> list[LogRows]:
        found = [one for one in whole(log) if one.table_id == 1]
        if found:
            bench.source.problems[1] = "a value that is none"
        return [one for one in whole(log) if one.table_id != 1]

    monkeypatch.setattr(FakeLog, "take", take)
    bench.source.commit(Row("a", "insert", 1))
    bench.run(*TABLES)
    moved = [s for s in bench.segments if s.start != s.end]
    assert [c.kind for c in moved[0].controls] == ["deferred"]


@dataclass
class RestingHost(ListHost):
    """Stops a minute behind the last change; each loop takes a quarter of a second.
    level: counts as the minute begins."""

    counts: dict[str, int] = field(default_factory=dict)
    now: float = 0.0
    level_at: float = 0.0

    def tables(self, seconds: float = 0.0) -> tuple[FollowTable, ...] | None:
        self.now += 0.25
        if self.source.told == len(self.source.transactions) and not self.level_at:
            self.level_at = self.now + 10
        if self.now == self.level_at:
            self.counts.clear()
        if self.level_at and self.now >= self.level_at + 60:
            raise Stopped
        assert self.now < 1_000
        return None


@pytest.mark.parametrize("what", ["needed_controls", "followed"])
def test_tables_are_compared_only_when_something_may_be_other_of_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Of hundreds it takes milliseconds. At rest it is each look at the source, of
    which there are twelve in a minute."""
    write(bench.source)
    bench.host = host = RestingHost(bench.source)
    act = getattr(follower, what)

    def counted(*given: Any, **more: Any) -> Any:
        host.counts[what] = host.counts.get(what, 0) + 1
        return act(*given, **more)

    monkeypatch.setattr(follower, what, counted)
    bench.run(*TABLES, clock=lambda: host.now)
    assert 0 < host.counts[what] <= 13


def test_at_rest_a_follower_wakes_twice_a_second(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.host = host = RestingHost(bench.source)
    waited: list[float] = []
    read = FakeLog.read

    def noted(log: FakeLog, seconds: float, **more: Any) -> None:
        if host.level_at and host.now > host.level_at:
            waited.append(seconds)
        read(log, seconds, **more)

    monkeypatch.setattr(FakeLog, "read", noted)
    bench.run(*TABLES, clock=lambda: host.now)
    assert {*waited} == {0.5}
