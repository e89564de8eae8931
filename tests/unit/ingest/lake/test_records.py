"""Whatever became of a timeline's file, it is told as damage and nothing else."""

from __future__ import annotations

import io
import random

import fastavro
import pytest

from core.errors import TerminalError
from ingest.lake.commits import record_of

SCHEMA = {
    "type": "record",
    "name": "Commit",
    "fields": [
        {"name": "operationType", "type": ["null", "string"]},
        {"name": "extraMetadata", "type": {"type": "map", "values": "string"}},
    ],
}
RECORD = {"operationType": "UPSERT", "extraMetadata": {"a": "b" * 300}}


@pytest.fixture(scope="module")
def whole() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [RECORD])
    return out.getvalue()


def test_a_whole_file_is_read(whole: bytes) -> None:
    assert record_of(whole, of="instant 1") == RECORD


@pytest.mark.parametrize("damaged", [b"", b"\0" * 4096, b"Obj\x01", b"no avro at all"])
def test_damage_is_told(damaged: bytes) -> None:
    with pytest.raises(TerminalError, match="instant 1 of orders cannot be read"):
        record_of(damaged, of="instant 1 of orders")


def test_no_damage_is_told_otherwise(whole: bytes) -> None:
    """Seeded: bytes that flipped, an end that came early. Some still read."""
    dice = random.Random(7)
    refused = 0
    for _ in range(500):
        broken = bytearray(whole[: dice.randrange(1, len(whole) + 1)])
        for _ in range(dice.randrange(1, 4)):
            broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        try:
            record_of(bytes(broken), of="x")
        except TerminalError:
            refused += 1
    assert refused > 300
