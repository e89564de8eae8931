"""What a slot sends again, compared with what was read: by examples."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from ingest.sources.postgresql.log.history import Last, Reread, last_text
from ingest.sources.postgresql.log.pgoutput import Begin, Decoder

BY = ("sluice",)
TABLE = b"R" + struct.pack(">I", 7) + b"public\0t\0d" + struct.pack(">H", 0)
ROW = b"I" + struct.pack(">I", 7) + b"N" + struct.pack(">H", 0)
EMPTIED = b"T" + struct.pack(">IBI", 1, 0, 7)
MEANT = b"M" + struct.pack(">BQ", 0, 9) + b"p\0" + struct.pack(">I", 0)


def transaction(
    commit: int, *within: bytes, time: int = 5, xid: int = 3
) -> list[bytes]:
    begin = b"B" + struct.pack(">QqI", commit, time, xid)
    end = b"C" + struct.pack(">BQQq", 0, commit, commit + 8, time)
    return [begin, *within, end]


def last_of(*messages: bytes) -> Last:
    decoder = Decoder(lambda _: None, lambda _: False)
    for message in messages:
        decoder.decode(message)
    found = Last.decode(last_text(decoder.last, BY))
    assert found is not None
    return found


READ = transaction(40, TABLE, ROW)
LAST = last_of(*READ)


@pytest.mark.parametrize(
    ("confirmed", "sent", "is_same"),
    [
        # the server does not know that it is durable, or does
        (20, [READ], True),
        (40, [READ], True),
        (48, [], True),
        (60, [], True),
        # without changes, and what comes behind what was read
        (20, [READ, transaction(50), transaction(52, MEANT)], True),
        (48, [transaction(50, TABLE), transaction(88, ROW)], True),
        (20, [READ, transaction(80, ROW), transaction(88, ROW)], True),
        # it is not there
        (20, [], False),
        (20, [transaction(80, TABLE, ROW)], False),
        (20, [transaction(40, TABLE)], False),
        # another one is in its place
        (20, [transaction(44, TABLE, ROW)], False),
        (20, [transaction(40, TABLE, ROW, xid=4)], False),
        (20, [transaction(40, TABLE, ROW, time=6)], False),
        # or behind it, or before it
        (20, [READ, transaction(60, ROW)], False),
        (48, [transaction(60, TABLE, ROW)], False),
        (48, [transaction(60, TABLE, EMPTIED)], False),
        (20, [transaction(40, TABLE, ROW, xid=9), READ], False),
    ],
)
def test_a_history_is_known_again(
    confirmed: int, sent: list[list[bytes]], *, is_same: bool
) -> None:
    again = Reread(80, LAST, BY, confirmed)
    assert again.start == max(40, confirmed)
    for message in [one for each in sent for one in each]:
        again.take(message)
    assert again.is_same == is_same
    assert again.is_over or is_same or not sent or len(sent[-1]) < 4


def test_a_stream_begins_without_a_transaction() -> None:
    first = Last.decode(last_text(Begin(40, 0, 0), BY))
    assert first is not None
    for sent, is_same in ((transaction(40, TABLE), True), (READ, False)):
        again = Reread(80, first, BY, 40)
        for message in sent:
            again.take(message)
        assert again.is_same == is_same


def test_what_came_by_other_publications_is_not_compared() -> None:
    assert LAST.is_by(BY)
    assert not LAST.is_by(("sluice", "another"))
    assert replace(LAST, by=0).is_by(BY) is False
    assert last_of(*READ, *transaction(50), *transaction(52, MEANT)) == LAST
    assert Last.decode("") is None
    assert last_text(None, BY) == ""
