"""Events of the binary log, byte by byte; what a real server writes is
`tests/integration/ingest/test_mariadb_binlog.py`."""

from __future__ import annotations

import struct
import zlib

from ingest.sources.mariadb.log.binlog import (
    DELETE,
    INSERT,
    MOVED,
    UPDATE,
    Begin,
    Commit,
    Decoder,
    Format,
)
from ingest.sources.mariadb.log.table_map import TableMap


def event(kind: int, body: bytes, *, flags: int = 0, is_summed: bool = True) -> bytes:
    size = 19 + len(body) + 4 * is_summed
    made = struct.pack("<IBIIIH", 1_700_000_000, kind, 7, size, 0, flags) + body
    return made + struct.pack("<I", zlib.crc32(made)) if is_summed else made


def texts(*names: bytes) -> bytes:
    return b"".join(bytes([len(name)]) + name for name in names)


NUMBER = (77).to_bytes(6, "little")
FORMAT = event(
    15, struct.pack("<H50sIB", 4, b"10.11.19-MariaDB-log", 0, 19) + bytes(60) + b"\1"
)
GTID = event(162, struct.pack("<QIB", 5, 0, 0) + bytes(6))
END = event(16, bytes(8))
# t(id int unsigned not null, note varchar(20) charset utf8mb4)
TABLE = event(
    19,
    NUMBER
    + b"\1\0"
    + b"\1d\0\1t\0"
    + b"\2\3\x0f"
    + b"\2\x50\0"
    + b"\2"
    + b"\1\1\x80"
    + b"\2\1\x2d"
    + b"\4\x08"
    + texts(b"id", b"note"),
)


def changed(kind: int, *rows: bytes) -> bytes:
    is_update = kind == 24
    return event(kind, NUMBER + b"\1\0\2" + b"\xff" * (1 + is_update) + b"".join(rows))


def row(number: int, note: bytes | None) -> bytes:
    if note is None:
        return b"\xfe" + struct.pack("<I", number)
    return b"\xfc" + struct.pack("<IB", number, len(note)) + note


def test_a_transaction() -> None:
    made = Decoder(lambda table: table.positions(("id",)))
    assert made.decode(FORMAT) == (Format("10.11.19-MariaDB-log", 0),)
    assert made.decode(GTID) == (Begin("0-7-5", 1_700_000_000_000_000),)
    (table,) = made.decode(TABLE)
    assert isinstance(table, TableMap)
    assert [column.name for column in table.columns] == ["id", "note"]
    assert made.decode(TABLE) == ()
    for sent in (
        changed(23, row(1, b"a"), row(4_000_000_000, None)),
        changed(24, row(1, b"a"), row(1, None), row(1, None), row(2, b"b")),
        changed(25, row(2, b"b")),
    ):
        assert made.decode(sent) == ()
    assert made.is_within
    assert made.decode(END) == (Commit(1_700_000_000_000_000),)
    assert not made.is_within
    (rows,) = made.take()
    assert rows.ops == [INSERT, INSERT, UPDATE, DELETE, MOVED, DELETE]
    assert rows.values == [
        (1, b"a"),
        (4_000_000_000, None),
        (1, None),
        (1, None),
        (2, b"b"),
        (2, b"b"),
    ]
    assert made.take() == []
