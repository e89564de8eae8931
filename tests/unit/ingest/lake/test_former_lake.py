"""A lake that a former release wrote, byte for byte, is read and gone on with.

`former/lake.json`: path → text of every small file of source 7, and one commit. Made by
the code of release 5: epochs 1 to 4 are in a checkpoint; 5 and 6 were applied; table 1
went back behind 6; 7 was committed by a writer that died before the ledger; 8 of table
2 is sealed and was never applied.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.contract.epochs import Seal
from ingest.driver.apply.epoch_tracking import EpochTable, Reached
from ingest.lake.epochs import epoch_folder, last_epoch, seals_of
from ingest.lake.hudi.position import decode_position
from ingest.lake.ledger import (
    checkpoint_ledger,
    is_accounted,
    read_ledger_entry,
)
from ingest.lake.place import place_at
from tests.unit.ingest.lake.applying import apply_epochs
from tests.unit.ingest.lake.checkpoints import read_checkpoint

FORMER = json.loads((Path(__file__).parent / "former" / "lake.json").read_text())


@pytest.fixture
def former(lake: str) -> str:
    for path, text in FORMER.items():
        if path != "commit":
            (place_at(lake) / path).replace(text)
    return lake


def line(lake: str, epoch: int, table: str) -> tuple[str, str]:
    entry = read_ledger_entry(lake, 7, epoch)
    assert entry is not None
    return entry.tables[table].state, entry.tables[table].instant


def test_a_former_lake_is_read(former: str) -> None:
    assert last_epoch(former, 7) == 8
    assert line(former, 5, "2") == ("committed", "20260131080500000")
    assert line(former, 6, "1") == ("deferred", "")
    assert is_accounted(former, 7, 5, 2)
    assert not is_accounted(former, 7, 5, 1)
    assert not is_accounted(former, 7, 6, 1), "it went back behind that"
    made = read_checkpoint(former, 7, 4)
    assert {t: one.instant[:12] for t, one in made.tables.items()} == {
        "1": "202601310804",
        "2": "202601310802",
    }


def test_a_former_lake_is_gone_on_with(former: str) -> None:
    position = decode_position(FORMER["commit"])
    applied: list[int] = []

    def write(seals: Sequence[Seal]) -> str:
        for seal in seals:
            (file,) = seal.files
            assert (epoch_folder(former, 7, seal.epoch) / file.path).exists()
            applied.append(seal.epoch)
        return "20260131090000000"

    one = EpochTable(former, 7, 1, "shop.one")
    reached = Reached(7, position.epoch_from, position.epoch_to, "20260131080700000")
    assert apply_epochs(one, reached, newest=8, write=write) == ()
    assert line(former, 7, "1") == ("committed", "20260131080700000")
    assert not epoch_folder(former, 7, 7).exists()
    two = EpochTable(former, 7, 2, "shop.two")
    (seal,) = apply_epochs(two, Reached(7, 5, 5, "i"), newest=8, write=write)
    assert (applied, seal.epoch) == ([8], 8)
    assert line(former, 8, "2") == ("committed", "20260131090000000")
    assert not epoch_folder(former, 7, 8).exists()
    # of each table the newest seal stays and tells the position
    assert [len(seals_of(former, 7, e)) for e in range(4, 9)] == [0, 0, 0, 1, 1]
    checkpoint_ledger(former, 7, upto=8)
    made = read_checkpoint(former, 7, 8)
    assert {t: one.instant[:12] for t, one in made.tables.items()} == {
        "1": "202601310804",
        "2": "202601310805",
    }
    assert line(former, 7, "1")[0] == line(former, 8, "2")[0] == "committed"
