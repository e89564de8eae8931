"""A place in MariaDB's log is counted along its events, in 64 bits."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from core.errors import TerminalError
from ingest.contract.source_positions import MariaDbLog
from ingest.sources.mariadb.log.places import HEAD, Place, parts_of, place_number

QUERY, XID, ROTATE, FORMAT, HEARTBEAT, GTID, GTIDS = 2, 16, 4, 15, 27, 162, 163
ARTIFICIAL = 0x20
START = MariaDbLog(1, "u", "b.", 7, 50, 4, "0-1-7")


def event(
    kind: int, *, end: int, size: int = 100, flags: int = 0, body: bytes = b"", when=60
) -> bytes:
    return HEAD.pack(when, kind, 1, size, end, flags) + body


def test_events_move_it_on() -> None:
    """debezium/dbz#2519: whether its transactions have numbers of their own or not."""
    place = Place(START)
    place.take(event(QUERY, end=104))
    place.take(event(XID, end=204, when=61))
    assert (place.here.offset, place.passed, place.when) == (204, 200, 61)


def test_what_is_made_up_for_us_does_not() -> None:
    """A heartbeat, and the description that is sent at the beginning of each dump."""
    place = Place(START)
    place.take(event(FORMAT, end=0))
    place.take(event(HEARTBEAT, end=4))
    place.take(event(GTIDS, end=300, flags=ARTIFICIAL))
    assert (place.here.offset, place.here.made, place.passed) == (4, 60, 0)


def test_beyond_32_bits_it_counts_on() -> None:
    place = Place(replace(START, offset=(1 << 32) - 10))
    place.take(event(QUERY, end=90))
    place.take(event(XID, end=190))
    assert place.here.offset == (1 << 32) + 190
    assert place_number(place.here) < place_number(START) + (1 << 64)


def test_a_dump_by_gtids_moves_it_on_once_the_next_file_comes() -> None:
    """No dump begins at such an offset: it has the head of the file before it, too."""
    place = Place(replace(START, offset=(1 << 32) + 5))
    place.take(event(FORMAT, end=256, when=50))
    place.take(event(GTIDS, end=299, body=struct.pack("<IIIQ", 1, 0, 1, 3)))
    assert (place.here.offset, place.gtids) == ((1 << 32) + 5, "0-1-7")
    place.enter("b.000008", 4)
    place.take(event(FORMAT, end=256, when=50))
    assert (place.here.number, place.here.offset) == (8, 256)


def test_a_rotation_takes_nothing_of_the_old_file_into_the_new_one() -> None:
    """spiceai#12042: the old file's end beside the new file's name, and what came before
    that offset was passed over."""
    place = Place(MariaDbLog(1, "u", "b.", 7, 50, 800))
    place.take(event(ROTATE, end=847))
    place.enter("b.000008", 4)
    assert (place.here.file, place.here.offset, place.here.made) == ("b.000008", 4, 0)
    place.take(event(FORMAT, end=256, when=70))
    assert (place.here.offset, place.here.made) == (256, 70)


def test_the_file_that_is_read_already_is_not_entered_anew() -> None:
    place = Place(MariaDbLog(1, "u", "b.", 7, 50, 800))
    place.enter("b.000007", 800)
    assert place.here.made == 50


def test_transactions_of_each_domain_are_known() -> None:
    place = Place(START)
    place.take(event(GTID, end=104, body=struct.pack("<QI", 8, 0)))
    place.take(event(GTID, end=204, body=struct.pack("<QI", 3, 5)))
    assert place.gtids == "0-1-8,5-1-3"
    entries = struct.pack("<I", 1) + struct.pack("<IIQ", 2, 9, 4)
    place.take(event(GTIDS, end=304, body=entries))
    assert place.gtids == "0-1-8,2-9-4,5-1-3"


def test_names_of_files() -> None:
    assert parts_of("my.bin.1000000") == ("my.bin.", 1_000_000)
    with pytest.raises(TerminalError):
        parts_of("binlog")
