"""What holds between capture and apply, whatever happens in between.

A follower cuts the changes of many tables into epochs, each table is applied when its
turn comes (or never: a deferred one), and processes are killed between any two file
operations. Then the lake is the merge of all changes, nothing was read after it was
removed, and nothing stays for ever.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from core.errors import TerminalError
from ingest.contract.epochs import LedgerLine, Seal, SealedFile
from ingest.contract.events import ChangeEvent, latest_per_key, numbered
from ingest.driver.apply.epoch_tracking import (
    EpochTable,
    Reached,
    give_up,
)
from ingest.lake.epochs import (
    drop_events,
    drop_unsealed_events,
    epoch_folder,
    last_epoch,
    shared_seals,
    write_seal,
)
from ingest.lake.ledger import checkpoint_ledger, forget_later, write_line
from tests.unit.ingest.lake.applying import apply_epochs
from tests.unit.ingest.lake.memory import Killed, MemoryStore

LAKE, SOURCE = "memory:/lake", 7
# Followed by the log, and one that is synced by a cursor beside them.
FOLLOWED, BY_CURSOR = (1, 2, 3), 9
KEYS = st.integers(0, 3)
# After so many changes of files a process is killed; None = it comes to its end.
LIVES = st.one_of(st.none(), st.integers(0, 12))


@dataclass
class LakeTable:
    """A lake table: what a commit changes at once. history: what it was before."""

    rows: dict[int, str] = field(default_factory=dict)
    reached: Reached = field(default_factory=Reached)
    history: list[tuple[dict[int, str], Reached]] = field(default_factory=list)
    must_resync: bool = False


class Contract(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.log: list[ChangeEvent] = []
        self.source: dict[int, dict[int, str]] = {t: {} for t in (*FOLLOWED, BY_CURSOR)}
        self.lake = {t: LakeTable() for t in (*FOLLOWED, BY_CURSOR)}
        self.numbers = 0
        self.instants = 0
        self.cursor_end = 0

    # ------------------------------------------------------------- the source

    @rule(table=st.sampled_from((*FOLLOWED, BY_CURSOR)), key=KEYS)
    def write(self, table: int, key: int) -> None:
        rows = self.source[table]
        op = "update" if key in rows else "insert"
        rows[key] = value = f"v{len(self.log)}"
        self._log(ChangeEvent(table, op, (key,), {"v": value}))  # type: ignore[arg-type]

    @rule(table=st.sampled_from(FOLLOWED), key=KEYS)
    def delete(self, table: int, key: int) -> None:
        if self.source[table].pop(key, None) is not None:
            self._log(ChangeEvent(table, "delete", (key,)))

    @rule(table=st.sampled_from(FOLLOWED), old=KEYS, new=KEYS)
    def change_key(self, table: int, old: int, new: int) -> None:
        rows = self.source[table]
        if old in rows and new not in rows:
            rows[new] = value = rows.pop(old)
            event = ChangeEvent(table, "update", (new,), {"v": value}, old_key=(old,))
            self._log(event)

    def _log(self, event: ChangeEvent) -> None:
        self.log.append(event)

    # ------------------------------------------------------------- capture

    @rule(lives=LIVES, many=st.integers(1, 8))
    def cut(self, lives: int | None, many: int) -> None:
        """The follower starts, reads on behind its newest seal and closes an epoch."""
        self._killed_after(lives, lambda: self._cut(many))

    def _cut(self, many: int) -> None:
        seals = shared_seals(LAKE, SOURCE)
        start = int(seals[-1].end) if seals else 0
        followed = [e for e in self.log[start:] if e.table_id in FOLLOWED]
        if not followed:
            return
        # whatever an epoch that was never sealed left
        for number in range(seals[-1].epoch + 1 if seals else 1, self.numbers + 1):
            self._drop_unsealed(number)
        self.numbers += 1
        end = min(start + many, len(self.log))
        events = list(numbered(e for e in self.log[start:end]))
        by_table = {t: [e for e in events if e.table_id == t] for t in FOLLOWED}
        files = []
        for table, its in by_table.items():
            if its:
                self._stage(self.numbers, table, its)
                files.append(SealedFile(table, str(table), len(its), len(its)))
        about = {str(f.table_id): 1 for f in files}
        previous = {t: self._previous(t) for t in about}
        seal = Seal(
            SOURCE, self.numbers, self.numbers, str(start), str(end), tuple(files),
            about, is_shared=True, previous=previous,
        )  # fmt: skip
        write_seal(LAKE, seal)

    def _drop_unsealed(self, number: int) -> None:
        folder = epoch_folder(LAKE, SOURCE, number)
        if not (folder / str(BY_CURSOR)).exists():
            drop_events(LAKE, SOURCE, number)

    def _previous(self, table: str) -> int:
        return self.sealed_for.get(table, 0)

    @property
    def sealed_for(self) -> dict[str, int]:
        """Table → the last epoch about it, as the follower remembers it."""
        known: dict[str, int] = getattr(self, "_sealed_for", {})
        for seal in shared_seals(LAKE, SOURCE):
            known |= dict.fromkeys(seal.schema_versions, seal.epoch)
        self._sealed_for = known
        return known

    def _stage(self, epoch: int, table: int, events: Sequence[ChangeEvent]) -> None:
        rows = [[e.index, e.op, e.key[0], e.row.get("v")] for e in events]
        place = epoch_folder(LAKE, SOURCE, epoch) / str(table) / "part"
        place.replace(json.dumps(rows))

    @rule(lives=LIVES)
    def sync_by_cursor(self, lives: int | None) -> None:
        """One incremental sync of the table beside: capture, seal, apply."""
        self._killed_after(lives, self._sync_by_cursor)

    def _sync_by_cursor(self) -> None:
        self.numbers += 1
        number, end = self.numbers, len(self.log)
        start = int(self.cursor_end)
        changed = {e.key[0] for e in self.log[start:end] if e.table_id == BY_CURSOR}
        rows = [
            ChangeEvent(BY_CURSOR, "update", (k,), {"v": self.source[BY_CURSOR][k]})
            for k in changed
        ]
        if rows:
            self._stage(number, BY_CURSOR, list(numbered(rows)))
        file = SealedFile(BY_CURSOR, str(BY_CURSOR), len(rows), len(rows))
        seal = Seal(
            SOURCE, number, number, str(start), str(end), (file,), {str(BY_CURSOR): 1}
        )
        write_seal(LAKE, seal)
        self._apply(BY_CURSOR, number)
        self.cursor_end = end

    # ------------------------------------------------------------- apply

    @rule(lives=LIVES, table=st.sampled_from(FOLLOWED), back=st.integers(0, 3))
    def apply(self, lives: int | None, table: int, back: int) -> None:
        """Up to the newest epoch, or some before it: others come later."""
        upto = max(0, last_epoch(LAKE, SOURCE) - back)
        self._killed_after(lives, lambda: self._apply(table, upto))

    @rule(lives=LIVES)
    def apply_all(self, lives: int | None) -> None:
        newest = last_epoch(LAKE, SOURCE)
        for table in FOLLOWED:
            self._killed_after(lives, lambda table=table: self._apply(table, newest))

    def _apply(self, table: int, upto: int) -> None:
        lake = self.lake[table]
        if lake.must_resync:
            return
        at = EpochTable(LAKE, SOURCE, table, f"t{table}")
        try:
            apply_epochs(
                at, lake.reached, newest=upto, write=lambda s: self._write(table, s)
            )
        except TerminalError as error:
            lost = error.code == "events_lost" and table in self.behind
            assert lost, "events of a table that needs them are gone"
            lake.must_resync = True

    def _write(self, table: int, seals: Sequence[Seal]) -> str:
        events = [e for seal in seals for e in self._read(table, seal)]
        if not events:
            return ""
        rows = dict(self.lake[table].rows)
        for event in latest_per_key(events):
            if event.op == "delete":
                rows.pop(event.key[0], None)
            else:
                rows[event.key[0]] = event.row["v"]
        return self._commit(table, rows, seals[0].epoch, seals[-1].epoch_last)

    def _read(self, table: int, seal: Seal) -> list[ChangeEvent]:
        found: list[ChangeEvent] = []
        for file in seal.files_for(table):
            place = epoch_folder(LAKE, SOURCE, seal.epoch) / file.path / "part"
            text = place.read()
            if not file.rows:
                continue
            assert text is not None, "it was removed before it was read"
            for index, op, key, value in json.loads(text):
                row = {"v": value}
                found.append(ChangeEvent(table, op, (key,), row, index=index))
        return sorted(found, key=lambda e: e.index)

    def _commit(self, table: int, rows: dict[int, str], first: int, last: int) -> str:
        self.store.change()
        self.instants += 1
        lake = self.lake[table]
        lake.history.append((lake.rows, lake.reached))
        instant = f"{self.instants:09d}"
        lake.rows, lake.reached = rows, Reached(SOURCE, first, last, instant)
        return instant

    # ------------------------------------------------------------- a table alone

    @rule(lives=LIVES, table=st.sampled_from(FOLLOWED))
    def load(self, lives: int | None, table: int) -> None:
        """The reader cuts, then the load takes the next number: it has all that is
        sealed, and nothing that is not."""
        self._killed_after(lives, lambda: self._load(table))

    def _load(self, table: int) -> None:
        self._cut(len(self.log))
        seals = shared_seals(LAKE, SOURCE)
        end = int(seals[-1].end) if seals else 0
        self.numbers += 1
        number = self.numbers
        instant = self._commit(table, self._rows_at(table, end), number, number)
        self.lake[table].must_resync = False
        write_line(LAKE, SOURCE, number, table, LedgerLine("committed", instant))
        at = EpochTable(LAKE, SOURCE, table, f"t{table}")
        give_up(at, upto=number, reason="loaded again")

    def _rows_at(self, table: int, end: int) -> dict[int, str]:
        rows: dict[int, str] = {}
        for event in latest_per_key(numbered(self.log[:end])):
            if event.table_id == table and event.op != "delete":
                rows[event.key[0]] = event.row["v"]
        return rows

    @rule(lives=LIVES, table=st.sampled_from(FOLLOWED), steps=st.integers(1, 3))
    def restore(self, lives: int | None, table: int, steps: int) -> None:
        """The table goes back to an older commit; what the ledger said is void."""
        lake = self.lake[table]
        if lake.history:
            del lake.history[max(1, len(lake.history) - steps + 1) :]
            lake.rows, lake.reached = lake.history.pop()
            self._killed_after(lives, lambda: self._forget(table))
            # the job of a restore goes on until it has said so
            self._forget(table)
            self.behind.add(table)

    def _forget(self, table: int) -> None:
        at = self.lake[table].reached
        forget_later(LAKE, SOURCE, table, after=at.epoch_to, instant=at.instant)

    @rule(lives=LIVES, back=st.integers(0, 4))
    def checkpoint(self, lives: int | None, back: int) -> None:
        upto = max(0, last_epoch(LAKE, SOURCE) - back)
        self._killed_after(lives, lambda: checkpoint_ledger(LAKE, SOURCE, upto=upto))

    @rule(lives=LIVES, table=st.sampled_from((*FOLLOWED, BY_CURSOR)))
    def tidy(self, lives: int | None, table: int) -> None:
        """What the upkeep of a table removes."""
        self._killed_after(lives, lambda: self._tidy(table))

    def _tidy(self, table: int) -> None:
        applied = self.lake[table].reached.epoch_to
        drop_unsealed_events(LAKE, SOURCE, table, applied=applied)

    # ------------------------------------------------------------- what holds

    def _killed_after(self, lives: int | None, work: Any) -> None:
        self.store.left = lives
        try:
            work()
        except Killed:
            pass
        finally:
            self.store.left = None

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.behind: set[int] = set()
        STORES[:] = [self.store]

    @invariant()
    def what_is_owed_is_there(self) -> None:
        """Nobody removes what a table still needs."""
        for table in FOLLOWED:
            if table in self.behind:
                continue
            lake = self.lake[table]
            for seal in shared_seals(LAKE, SOURCE):
                if seal.epoch > lake.reached.epoch_to and seal.rows_for(table):
                    assert self._read(table, seal)

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        for table in self.lake:  # a change of each, so that a gap shows
            self.write(table, 0)
        self._cut(len(self.log))
        self._sync_by_cursor()
        newest = last_epoch(LAKE, SOURCE)
        for table in FOLLOWED:
            self._apply(table, newest)
            if self.lake[table].must_resync:
                self._load(table)
        for table in FOLLOWED:
            assert self.lake[table].rows == self.source[table]
        assert self.lake[BY_CURSOR].rows == self.source[BY_CURSOR]
        self._sync_by_cursor()
        self._cut(len(self.log))
        for table in FOLLOWED:
            self._apply(table, newest)
        for table in self.lake:
            self._tidy(table)
        checkpoint_ledger(LAKE, SOURCE, upto=self.numbers)
        self._nothing_stays()

    def _nothing_stays(self) -> None:
        names = sorted(self.store.files)
        events = [n for n in names if "/epochs/" in n and not n.endswith(".seal")]
        assert events == []
        seals = [n for n in names if n.endswith(".seal")]
        assert len(seals) == 2, "the newest of the follower and of the table beside"
        ledger = [n.rpartition("/")[2] for n in names if "/ledger/" in n]
        sealed = {n.rpartition("/")[2][:12] for n in seals}
        left = [n for n in ledger if n[:12] not in sealed]
        assert len(left) <= 1, "one checkpoint has all that is not asked for"


STORES: list[MemoryStore] = []


def test_the_lake_is_the_merge_of_all_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.lake.epochs.place_at", lambda uri: STORES[0].at(uri))
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Contract,
        settings=settings(
            max_examples=150,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
