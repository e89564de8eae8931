"""What holds between capture and apply, whatever happens in between.

A sync reads what changed, seals it and applies it; processes are killed between any two
file operations, the table is loaded anew and goes back to older commits. Then the lake
has all rows of the source, nothing was read after it was removed, and nothing stays for
ever.
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
    rule,
    run_state_machine_as_test,
)

from ingest.contract.epochs import LedgerLine, Seal, SealedFile
from ingest.driver.apply.epoch_tracking import EpochTable, Reached
from ingest.lake.epochs import (
    drop_seals_behind,
    drop_unsealed_events,
    epoch_folder,
    write_seal,
)
from ingest.lake.ledger import drop_oldest_lines, write_line
from tests.unit.ingest.lake.applying import apply_epochs
from tests.unit.ingest.lake.memory import Killed, MemoryStore

LAKE, SOURCE, TABLE = "memory:/lake", 7, 9
# After so many changes of files a process is killed; None = it comes to its end.
LIVES = st.one_of(st.none(), st.integers(0, 12))
STORES: list[MemoryStore] = []


@dataclass(frozen=True)
class Version:
    """The lake table as of one commit. end: how far of the log it has."""

    rows: dict[int, str] = field(default_factory=dict)
    reached: Reached = field(default_factory=Reached)
    end: int = 0


class Contract(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        STORES[:] = [self.store]

    @initialize()
    def begin(self) -> None:
        self.log: list[int] = []
        self.source: dict[int, str] = {}
        self.versions = [Version()]
        self.numbers = self.instants = 0

    @rule(key=st.integers(0, 3))
    def write(self, key: int) -> None:
        self.source[key] = f"v{len(self.log)}"
        self.log.append(key)

    @rule(lives=LIVES)
    def sync(self, lives: int | None) -> None:
        self._killed_after(lives, self._sync)

    def _sync(self) -> None:
        """Behind what the lake's newest commit has."""
        self.numbers += 1
        number, start, end = self.numbers, self.versions[-1].end, len(self.log)
        changed = {key: self.source[key] for key in self.log[start:end]}
        if changed:
            part = epoch_folder(LAKE, SOURCE, number) / str(TABLE) / "part"
            part.replace(json.dumps(list(changed.items())))
        file = SealedFile(TABLE, str(TABLE), len(changed), len(changed))
        about = {str(TABLE): 1}
        write_seal(LAKE, Seal(SOURCE, number, str(start), str(end), (file,), about))
        at = EpochTable(LAKE, SOURCE, TABLE, "t")
        reached = self.versions[-1].reached
        apply_epochs(at, reached, newest=number, write=self._write)

    def _write(self, seals: Sequence[Seal]) -> str:
        rows = dict(self.versions[-1].rows)
        changed = [pair for seal in seals for pair in self._read(seal)]
        rows |= dict(changed)
        if not changed:
            return ""
        return self._commit(rows, seals[0].epoch, seals[-1].epoch, int(seals[-1].end))

    def _read(self, seal: Seal) -> list[tuple[int, str]]:
        (file,) = seal.files
        if not file.rows:
            return []
        place = epoch_folder(LAKE, SOURCE, seal.epoch) / file.path / "part"
        text = place.read()
        assert text is not None, "it was removed before it was read"
        return [(key, value) for key, value in json.loads(text)]

    def _commit(self, rows: dict[int, str], first: int, last: int, end: int) -> str:
        self.store.change()
        self.instants += 1
        instant = f"{self.instants:09d}"
        reached = Reached(SOURCE, first, last, instant)
        self.versions.append(Version(rows, reached, end))
        return instant

    @rule(lives=LIVES)
    def load(self, lives: int | None) -> None:
        self._killed_after(lives, self._load)

    def _load(self) -> None:
        self.numbers += 1
        number = self.numbers
        instant = self._commit(dict(self.source), number, number, len(self.log))
        write_line(LAKE, SOURCE, number, TABLE, LedgerLine("committed", instant))

    @rule(lives=LIVES, steps=st.integers(1, 3))
    def restore(self, lives: int | None, steps: int) -> None:
        """To an older commit; its job goes on until the seals behind are gone."""
        del self.versions[max(1, len(self.versions) - steps) :]
        self._killed_after(lives, self._forget)
        self._forget()

    def _forget(self) -> None:
        after = self.versions[-1].reached.epoch_to
        drop_seals_behind(LAKE, SOURCE, TABLE, after=after)

    @rule(lives=LIVES)
    def tidy(self, lives: int | None) -> None:
        self._killed_after(lives, self._tidy)

    def _tidy(self) -> None:
        applied = self.versions[-1].reached.epoch_to
        drop_unsealed_events(LAKE, SOURCE, TABLE, applied=applied)
        drop_oldest_lines(LAKE, SOURCE)

    def _killed_after(self, lives: int | None, work: Any) -> None:
        self.store.left = lives
        try:
            work()
        except Killed:
            pass
        finally:
            self.store.left = None

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        self.write(0)
        self._sync()
        assert self.versions[-1].rows == self.source
        self._sync()
        self._tidy()
        names = sorted(self.store.files)
        events = [n for n in names if "/epochs/" in n and not n.endswith(".seal")]
        assert events == []
        assert len([n for n in names if n.endswith(".seal")]) == 1, "the newest"
        assert len([n for n in names if "/ledger/" in n]) <= 2 * MOST + 1


MOST = 3


def test_the_lake_has_all_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.lake.epochs.place_at", lambda uri: STORES[0].at(uri))
    monkeypatch.setattr("ingest.lake.ledger.MOST_LINES", MOST)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Contract,
        settings=settings(
            max_examples=150,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
