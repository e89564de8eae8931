"""Messages of pgoutput, byte by byte; what a real server sends is
`tests/integration/ingest/test_postgresql_log.py`."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc

import pytest

from core.errors import TerminalError
from ingest.sources.postgresql.log.pgoutput import (
    DELETE,
    INSERT,
    MOVED,
    TRUNCATE,
    UPDATE,
    Begin,
    Commit,
    Decoder,
    Relation,
    RelationColumn,
)

OID = 16_400
UNSENT = object()


def row(*values: object) -> bytes:
    made = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            made += b"n"
        elif value is UNSENT:
            made += b"u"
        else:
            data = str(value).encode()
            made += b"t" + struct.pack(">I", len(data)) + data
    return made


def relation(*names: str, oid: int = OID, schema: str = "public") -> bytes:
    made = b"R" + struct.pack(">I", oid) + schema.encode() + b"\0t\0d"
    made += struct.pack(">H", len(names))
    for place, name in enumerate(names):
        made += bytes([not place]) + name.encode() + b"\0" + struct.pack(">Ii", 25, -1)
    return made


def change(kind: str, *parts: bytes, oid: int = OID) -> bytes:
    return kind.encode() + struct.pack(">I", oid) + b"".join(parts)


BEGIN = b"B" + struct.pack(">QqI", 80, 1_000_000, 7)
COMMIT = b"C" + struct.pack(">BQQq", 0, 80, 96, 1_000_000)
INSERTED = change("I", b"N", row("1", "a", None))
TABLE = relation("id", "größe", "note")


def decoder(*messages: bytes) -> Decoder:
    made = Decoder(lambda relation: (0,))
    for message in messages:
        made.decode(message)
    return made


def test_a_transaction() -> None:
    made = Decoder(lambda relation: (0,))
    assert made.decode(BEGIN) == Begin(80, 946_684_801_000_000, 7)
    assert made.is_within
    table = made.decode(TABLE)
    assert isinstance(table, Relation)
    assert table.columns[:2] == (
        RelationColumn("id", 25, -1, is_key=True),
        RelationColumn("größe", 25, -1, is_key=False),
    )
    assert (table.schema, table.name, table.identity) == ("public", "t", "d")
    assert table.positions(("note", "id")) == (2, 0)
    assert made.decode(INSERTED) is None
    assert made.size == len(INSERTED)
    assert made.decode(COMMIT) == Commit(80, 96, 946_684_801_000_000)
    assert not made.is_within
    (rows,) = made.take()
    assert (rows.ops, rows.xids, rows.values) == ([INSERT], [7], [(b"1", b"a", None)])
    assert made.size == 0
    assert made.take() == []
    assert made.decode(TABLE) is None


@pytest.mark.parametrize(
    ("message", "ops", "values", "unchanged"),
    [
        (change("U", b"N", row(1, "b", None)), [UPDATE], [(b"1", b"b", None)], {}),
        (
            change("U", b"N", row(1, UNSENT, "x")),
            [UPDATE],
            [(b"1", None, b"x")],
            {0: 2},
        ),
        (
            change("U", b"K", row(1, None, None), b"N", row(2, UNSENT, "x")),
            [DELETE, MOVED],
            [(b"1", None, None), (b"2", None, b"x")],
            {1: 2},
        ),
        # the whole old row has what was not sent
        (
            change("U", b"O", row(1, "old", None), b"N", row(1, UNSENT, "x")),
            [UPDATE],
            [(b"1", b"old", b"x")],
            {},
        ),
        (
            change("U", b"O", row(1, "old", None), b"N", row(2, UNSENT, "x")),
            [DELETE, MOVED],
            [(b"1", b"old", None), (b"2", b"old", b"x")],
            {},
        ),
        (change("D", b"K", row(1, None, None)), [DELETE], [(b"1", None, None)], {}),
        (change("D", b"O", row(1, "a", "")), [DELETE], [(b"1", b"a", b"")], {}),
        (
            b"T" + struct.pack(">IBI", 1, 3, OID),
            [TRUNCATE],
            [(None, None, None)],
            {},
        ),
    ],
)
def test_what_happened_to_a_row(
    message: bytes,
    ops: list[int],
    values: list[tuple[bytes | None, ...]],
    unchanged: dict[int, int],
) -> None:
    (rows,) = decoder(BEGIN, TABLE, message).take()
    assert (rows.ops, rows.values, rows.unchanged) == (ops, values, unchanged)


def test_parts_and_altered_tables() -> None:
    made = decoder(BEGIN, TABLE, INSERTED, INSERTED)
    (first,) = made.take()
    made.decode(INSERTED)
    made.decode(relation("id"))
    made.decode(change("I", b"N", row(5)))
    second, third = made.take()
    assert (len(first.ops), second.values, third.values) == (
        2,
        [(b"1", b"a", None)],
        [(b"5",)],
    )
    assert [len(one.relation.columns) for one in (second, third)] == [3, 1]


def test_tables_that_are_not_wanted_are_passed_over() -> None:
    made = Decoder(lambda relation: None)
    for message in (BEGIN, TABLE, INSERTED, b"T" + struct.pack(">IBI", 1, 0, OID)):
        made.decode(message)
    assert made.take() == []
    assert made.size == 0


def test_other_tables_are_wanted_from_some_place_on() -> None:
    wanted: dict[str, tuple[int, ...]] = {}
    made = Decoder(lambda relation: wanted.get(relation.name))
    name = decoder(TABLE).decode(relation("id")).name  # type: ignore[union-attr]
    for message in (BEGIN, TABLE, INSERTED):
        made.decode(message)
    wanted[name] = (0,)
    made.look_again()
    made.decode(INSERTED)
    assert [len(rows.ops) for rows in made.take()] == [1]
    del wanted[name]
    made.look_again()
    made.decode(INSERTED)
    assert made.take() == []


def test_one_that_is_wanted_later_is_as_it_was_described_last() -> None:
    names: set[str] = set()
    made = Decoder(lambda relation: (0,), lambda named: named.name in names)
    assert made.decode(TABLE) is None
    for message in (BEGIN, INSERTED, relation("id", "v")):
        made.decode(message)
    names.add("t")
    made.look_again()
    made.decode(change("I", b"N", row(1, "a")))
    (rows,) = made.take()
    assert [column.name for column in rows.relation.columns] == ["id", "v"]
    assert rows.values == [(b"1", b"a")]


def test_what_is_not_wanted_takes_little_more_than_its_description() -> None:
    names = [f"a_column_{n}" for n in range(30)]
    made = Decoder(lambda relation: (0,), lambda named: False)
    sent = 0
    tracemalloc.start()
    for oid in range(500):
        message = relation(*names, oid=oid)
        sent += len(message)
        made.decode(message)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < sent * 1.5


def test_what_was_emptied_waits_as_rows_do() -> None:
    made = decoder(BEGIN, TABLE)
    made.decode(b"T" + struct.pack(">IBI", 1, 0, OID))
    assert made.size > 0
    made.take()
    assert made.size == 0


def test_the_partition_of_a_row_is_described_behind_its_table() -> None:
    part, other = OID + 1, OID + 2
    one = relation("id", "v")
    messages = [
        relation("x", oid=other), change("I", b"N" + row("0"), oid=other),
        one, relation("id", "v", oid=part), change("I", b"N" + row("1", "a")),
        one, change("I", b"N" + row("2", "b")),
        one, relation("id", "v", oid=part), change("I", b"N" + row("3", "a")),
        b"T" + struct.pack(">IBI", 1, 0, OID),
        one, relation("id", "v", oid=part), change("I", b"N" + row("4", "a")),
    ]  # fmt: skip
    found = decoder(BEGIN, *messages)
    (rows,) = [rows for rows in found.waiting() if rows.relation.oid == OID]
    assert rows.parts == [(part, 7, 1), (part, 7, 2), (0, 7, 0), (part, 7, 1)]
    assert found.waiting() == found.take()
    assert found.waiting() == []


def test_what_stands_between_rows() -> None:
    made = Decoder(lambda relation: (0,))
    said = b"M" + struct.pack(">BQ", 0, 99) + b"sluice\0" + struct.pack(">I", 2) + b"hi"
    origin, type_ = b"O" + bytes(8) + b"origin\0", b"Y" + bytes(4) + b"public\0mood\0"
    for other in (said, origin, type_):
        assert made.decode(other) is None


def test_a_row_of_the_most_columns() -> None:
    names = [f"c{n}" for n in range(1600)]
    made = decoder(BEGIN, relation(*names), change("I", b"N", row(*names[:-1], UNSENT)))
    (rows,) = made.take()
    assert rows.values[0][:-1] == tuple(name.encode() for name in names[:-1])
    assert rows.unchanged == {0: 1 << 1599}


@pytest.mark.parametrize(
    "messages",
    [
        (b"",),
        (b"Z",),
        (b"S" + bytes(9),),  # streaming, which nobody asked for
        (COMMIT,),
        (BEGIN, BEGIN),
        (BEGIN[:-1],),
        (BEGIN, INSERTED),  # of a table that was not described
        (TABLE, INSERTED),  # outside of a transaction
        (TABLE + b"x",),
        (TABLE[:-1],),
        (BEGIN, TABLE, INSERTED + b"x"),
        (BEGIN, TABLE, INSERTED[:-1]),
        (BEGIN, TABLE, change("I", b"N", row(1, 2))),
        (BEGIN, TABLE, change("I", b"K", row(1, 2, 3))),
        (BEGIN, TABLE, change("I", b"N", row(1, 2, 3).replace(b"t", b"b"))),
        (BEGIN, TABLE, change("U", b"K", row(1, 2, 3))),
        (BEGIN, TABLE, change("U", b"K", row(1, 2, 3), b"N", row(1, 2))),
        (BEGIN, TABLE, change("U", b"X", row(1, 2, 3), b"N", row(1, 2, 3))),
        (BEGIN, TABLE, change("D", b"N", row(1, 2, 3))),
        (BEGIN, TABLE, change("I", b"N", b"\0\3t\xff\xff\xff\xff")),
        (BEGIN, TABLE, b"T" + struct.pack(">IBI", 2, 0, OID)),
        (BEGIN, b"T" + struct.pack(">IBI", 1, 0, OID)),
        (b"R" + struct.pack(">I", OID) + b"\xff\0t\0d\0\0",),
    ],
)
def test_what_is_no_message_is_refused(messages: tuple[bytes, ...]) -> None:
    *before, last = messages
    made = decoder(*before)
    with pytest.raises(TerminalError) as error:
        made.decode(last)
    assert error.value.code == "log_unreadable"


def test_damaged_messages_raise_nothing_else() -> None:
    rng = random.Random(3)
    whole = [
        BEGIN,
        TABLE,
        INSERTED,
        change("U", b"O", row(1, "old", None), b"N", row(2, UNSENT, "x")),
        change("D", b"K", row(1, None, None)),
        b"T" + struct.pack(">IBI", 1, 3, OID),
        COMMIT,
    ]
    for _ in range(5_000):
        made = Decoder(lambda relation: (0,))
        with contextlib.suppress(TerminalError):
            for message in whole:
                damaged = bytearray(message)
                if rng.random() < 0.3:
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                if rng.random() < 0.1:
                    del damaged[rng.randrange(len(damaged)) :]
                made.decode(bytes(damaged))


def test_a_long_key_that_was_not_sent_is_the_old_one() -> None:
    begin = b"B" + struct.pack(">QqI", 1, 1, 5)
    old, new = b"K" + _texts(b"a key", b"n"), b"N" + _texts(b"u", b"new")
    update = b"U" + struct.pack(">I", 1) + old + new
    made = Decoder(lambda _: (0,))
    columns = (
        b"\1id\0" + struct.pack(">Ii", 25, -1) + b"\0v\0" + struct.pack(">Ii", 25, -1)
    )
    table = b"R" + struct.pack(">I", 1) + b"public\0t\0d" + struct.pack(">H", 2)
    for message in (begin, table + columns, update):
        made.decode(message)
    (rows,) = made.take()
    assert (rows.values, rows.unchanged) == ([(b"a key", b"new")], {})


def _texts(*values: bytes) -> bytes:
    """u, n: not sent, NULL."""
    marks = (
        v if v in (b"u", b"n") else b"t" + struct.pack(">I", len(v)) + v for v in values
    )
    return struct.pack(">H", len(values)) + b"".join(marks)
