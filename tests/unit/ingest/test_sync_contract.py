"""What holds between a source, the lake and the database, whatever happens in between.

A sync reads what changed and commits it; it dies before its commit or before its report,
the table is loaded anew and goes back to older commits, the database to an older backup.
Then the lake has all rows of the source, and later commits have higher numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from core.errors import TerminalError
from ingest.contract.job import SyncWork
from ingest.contract.positions import seq_of
from ingest.driver.apply.apply import (
    next_epoch,
    position_of,
    refuse_gone_back,
    unreported_commit,
)
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.identity import TableIdentity
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.hudi.timeline import Timeline
from tests.unit.ingest.test_agreement import spec

Death = Literal["before the commit", "before the report", ""]
DEATHS: st.SearchStrategy[Death] = st.sampled_from(
    ("before the commit", "before the report", "", "")
)


@dataclass(frozen=True)
class Version:
    """The lake table as of one commit: of each key `_sluice_seq` and value."""

    rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    state: LakeState = field(default_factory=lambda: LakeState(exists=True))

    def after(
        self, changed: dict[int, int], epoch: int, index: int, end: str, made: int
    ) -> Version:
        """made: when, as no two commits are."""
        seq = seq_of(epoch, index)
        rows = dict(self.rows)
        for key, value in changed.items():
            # as Hudi merges: the higher one wins
            rows[key] = max(rows.get(key, (0, 0)), (seq, value))
        identity = TableIdentity(("id",), 2)
        position = CommitPosition(7, "", end, epoch, epoch, "j", 1, identity)
        instant = f"{made:017d}"
        timeline = Timeline.of([f"{instant}_{instant}.deltacommit"])
        commit = Commit(timeline.completed_writes[0], "UPSERT", position)
        state = LakeState(True, timeline, (commit,), position)
        return Version(rows, state)


@dataclass(frozen=True)
class Known:
    """What the database has."""

    position: str = ""
    epoch: int = 0
    instant: str = ""


def moment(clock: int) -> str:
    return f"2026-01-01T00:{clock // 60:02d}:{clock % 60:02d}.000000Z"


class Contract(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.clock = self.made = 0
        self.source: dict[int, tuple[str, int]] = {}
        self.versions = [Version()]
        self.known = Known()
        self.load("")
        self.backup = self.known

    @rule(key=st.integers(0, 3))
    def write(self, key: int) -> None:
        self.clock += 1
        self.source[key] = (moment(self.clock), self.clock)

    @rule(death=DEATHS, most=st.sampled_from((1, 9)))
    def sync(self, death: Death, most: int) -> None:
        """most: rows that one reads. Behind what is known of the lake; refused where that went back and nobody noticed."""
        lake, known = self.versions[-1], self.known
        job = replace(
            spec("lake"),
            sync=SyncWork(
                known.position or None, 0, behind=known.epoch, instant=known.instant
            ),
        )
        try:
            refuse_gone_back(job, lake.state)
        except TerminalError:
            self.follow_lake()
            return
        low = position_of(job, lake.state) or ""
        waits = sorted(at for at, _ in self.source.values() if at > low)
        is_all = len(waits) <= most
        end = max(low, moment(self.clock)) if is_all else waits[most - 1]
        changed = {k: v for k, (at, v) in self.source.items() if low < at <= end}
        if death == "before the commit":
            return
        if changed:
            self.commit(changed, lake, 1, end)
        if death == "before the report":
            return
        told = self.versions[-1].state.newest_write if changed else None
        told = told or unreported_commit(job, lake.state)
        epoch = told.position.epoch_to if told and told.position else known.epoch
        instant = told.instant.asked if told else known.instant
        self.known = Known(end, epoch, instant)
        if is_all:
            self.require_all()

    @rule(death=DEATHS)
    def load(self, death: Death) -> None:
        """The next attempt of a load finds its commit, so its report comes."""
        if death == "before the commit":
            return
        before = Version(state=self.versions[-1].state)
        rows = {key: value for key, (_, value) in self.source.items()}
        self.commit(rows, before, 0, moment(self.clock))
        self.follow_lake()

    def commit(
        self, rows: dict[int, int], behind: Version, index: int, end: str
    ) -> None:
        self.made += 1
        epoch = next_epoch(behind.state)
        version = behind.after(rows, epoch, index, end, self.made)
        before, now = self.versions[-1].state.position, version.state.position
        assert now is not None
        assert before is None or now.epoch_to > before.epoch_to
        self.versions.append(version)

    @rule(steps=st.integers(1, 3), is_told=st.booleans())
    def restore(self, steps: int, is_told: bool) -> None:
        del self.versions[max(2, len(self.versions) - steps) :]
        if is_told:
            self.follow_lake()

    def follow_lake(self) -> None:
        state = self.versions[-1].state
        position, newest = state.position, state.newest_write
        assert position is not None
        assert newest is not None
        self.known = Known(position.end, position.epoch_to, newest.instant.asked)

    @rule()
    def back_up(self) -> None:
        self.backup = self.known

    @rule()
    def lose_database(self) -> None:
        self.known = self.backup

    def require_all(self) -> None:
        """Behind a sync that came to its end."""
        lake = self.versions[-1]
        assert {key: value for key, (_, value) in lake.rows.items()} == {
            key: value for key, (_, value) in self.source.items()
        }
        assert lake.state.position is not None
        assert self.known.epoch == lake.state.position.epoch_to


def test_the_lake_has_all_changes() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Contract,
        settings=settings(max_examples=60, stateful_step_count=30, deadline=None),
    )


def test_a_backup_of_the_database_knows_a_commit_that_a_restore_took_away() -> None:
    """Another one has its epoch by now, and has read less."""
    world = Contract()
    world.begin()
    world.write(1)
    world.write(2)
    world.sync("", 9)
    world.back_up()
    world.restore(1, is_told=True)
    world.sync("", 1)
    world.lose_database()
    world.sync("", 9)
