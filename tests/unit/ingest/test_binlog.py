"""Events of the binary log, byte by byte; what a real server writes is
`tests/integration/ingest/test_mariadb_binlog.py`."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
import zlib

import pyarrow as pa
import pytest

from core.errors import TerminalError
from ingest.sources.mariadb.log.binlog import (
    DELETE,
    INSERT,
    MOVED,
    UPDATE,
    Begin,
    Commit,
    Decoder,
    Missed,
    Rollback,
    Rotate,
    Statement,
)
from ingest.sources.mariadb.log.table_map import TableMap
from tests.cpu import cost_of


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
    made = Decoder(key_of)
    assert made.decode(FORMAT) == ()
    assert made.decode(GTID) == (Begin(),)
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


def mysql_gtid(kind: int = 33) -> bytes:
    return event(kind, b"\1" + bytes(range(16)) + struct.pack("<q", 9) + bytes(20))


def query(text: bytes, *, database: bytes = b"d", said: bytes = b"") -> bytes:
    head = struct.pack("<IIBHH", 1, 0, len(database), 0, len(said))
    return event(2, head + said + database + b"\0" + text)


def changed_second_version(kind: int, *rows: bytes, more: bytes = b"") -> bytes:
    said = struct.pack("<H", 2 + len(more)) + more
    marks = b"\xff" * (1 + (kind == 31))
    return event(kind, NUMBER + b"\1\0" + said + b"\2" + marks + b"".join(rows))


def payload(*events: bytes, method: int = 0) -> bytes:
    """method: 255 = nothing is compressed."""
    data = b"".join(events)
    packed = data if method else pa.Codec("zstd").compress(data, asbytes=True)
    fields = bytes([2, 1, method]) if method < 251 else bytes([2, 3, 252, method, 0])
    fields += b"\3\5\xfd" + len(data).to_bytes(4, "little")
    return event(40, fields[: len(fields)] + b"\0" + packed)


def plain(made: bytes) -> bytes:
    """An event without its checksum, as a payload has it."""
    return made[:9] + struct.pack("<I", len(made) - 4) + made[13:-4]


def key_of(table: TableMap) -> tuple[int, ...] | None:
    return None if table.problem else table.positions(("id",))


def opened(*events: bytes) -> Decoder:
    made = Decoder(key_of)
    for sent in (FORMAT, *events):
        made.decode(sent)
    return made


def values(made: Decoder) -> list[object]:
    return [row for rows in made.take() for row in rows.values]


def test_mysqls_transactions() -> None:
    made = opened()
    assert made.decode(mysql_gtid()) == ()
    (begun,) = made.decode(query(b"BEGIN"))
    assert isinstance(begun, Begin)
    made.decode(event(29, b"\5a rows"))
    made.decode(TABLE)
    made.decode(changed_second_version(30, row(1, b"a"), more=b"\0\5abc"))
    made.decode(changed_second_version(31, row(1, b"a"), row(2, b"b")))
    made.decode(changed_second_version(32, row(2, b"b")))
    assert made.decode(END) == (Commit(1_700_000_000_000_000),)
    (rows,) = made.take()
    assert rows.ops == [INSERT, DELETE, MOVED, DELETE]
    made.decode(mysql_gtid(42))  # what it has is not read
    (done,) = made.decode(query(b"ALTER TABLE t ADD c int"))
    assert done == Statement("d", "ALTER TABLE t ADD c int", 1_700_000_000_000_000)


def test_a_file_that_was_loaded_by_a_statement() -> None:
    head = struct.pack("<IIBHH", 1, 0, 1, 0, 0) + bytes(13)
    (done,) = opened(GTID).decode(
        event(18, head + b"d\0LOAD DATA INFILE 'x' INTO TABLE t")
    )
    assert isinstance(done, Statement)
    assert (done.database, done.text[-12:]) == ("d", "INTO TABLE t")


@pytest.mark.parametrize("method", [0, 255])
def test_a_transaction_in_one_event(method: int) -> None:
    made = opened(mysql_gtid())
    inner = query(b"BEGIN"), TABLE, changed_second_version(30, row(1, b"a")), END
    said = made.decode(payload(*map(plain, inner), method=method))
    assert [type(one) for one in said] == [Begin, TableMap, Commit]
    assert values(made) == [(1, b"a")]


def test_a_large_transaction_is_taken_in_parts() -> None:
    made = opened(GTID, TABLE)
    for number in range(3):
        made.decode(changed(23, row(number, b"a")))
        assert made.size > 0
        assert values(made) == [(number, b"a")]
        assert made.size == 0
        assert made.is_within
    assert made.decode(query(b"ROLLBACK")) == (Rollback(is_whole=False),)


def test_only_what_was_rolled_back_is_gone() -> None:
    made = opened(GTID, TABLE, changed(23, row(1, b"a")), END)
    for sent in (GTID, TABLE, changed(23, row(2, b"a"))):
        made.decode(sent)
    assert made.decode(query(b"ROLLBACK")) == (Rollback(is_whole=True),)
    for sent in (
        GTID, TABLE, changed(23, row(3, b"a")), query(b"SAVEPOINT `a b`"),
        changed(23, row(4, b"a")), query(b"ROLLBACK TO `a b`"),
        changed(23, row(5, b"a")), query(b"COMMIT"),
    ):  # fmt: skip
        made.decode(sent)
    assert values(made) == [(1, b"a"), (3, b"a"), (5, b"a")]


def test_rows_behind_a_savepoint_that_came_after_some_were_taken() -> None:
    made = opened(GTID, TABLE, changed(23, row(1, b"a")))
    assert values(made) == [(1, b"a")]
    for sent in (
        query(b"SAVEPOINT s"), changed(23, row(2, b"a")), query(b"ROLLBACK TO s"),
        changed(23, row(3, b"a")), END,
    ):  # fmt: skip
        assert not any(isinstance(one, Missed) for one in made.decode(sent))
    assert values(made) == [(3, b"a")]


def test_a_table_is_named_whose_rows_were_taken_before_they_were_rolled_back() -> None:
    made = opened(GTID, TABLE, query(b"SAVEPOINT s"), changed(23, row(1, b"a")))
    assert values(made) == [(1, b"a")]
    made.decode(changed(23, row(2, b"a")))
    (missed,) = made.decode(query(b"ROLLBACK TO s"))
    assert isinstance(missed, Missed)
    assert missed.tables == (("d", "t"),)
    for sent in (
        changed(23, row(3, b"a")),
        END,
        GTID,
        TABLE,
        changed(23, row(4, b"a")),
    ):
        made.decode(sent)
    assert values(made) == [], "the stream goes on, without the table"


def test_savepoints_whose_names_look_like_comments() -> None:
    made = opened(GTID, TABLE, query(b"SAVEPOINT `s/*1*/`"), changed(23, row(1, b"a")))
    for sent in (
        query(b"SAVEPOINT `s/*2*/`"), changed(23, row(2, b"a")),
        query(b"ROLLBACK TO `s/*1*/`"), changed(23, row(3, b"a")), END,
    ):  # fmt: skip
        made.decode(sent)
    assert values(made) == [(3, b"a")]


def test_a_statement_full_of_what_begins_a_comment_takes_no_time() -> None:
    def read(count: int) -> None:
        text = b"CREATE VIEW v AS SELECT " + b",".join([b"'/*'"] * count)
        (done,) = opened(GTID).decode(query(text))
        assert isinstance(done, Statement)
        assert done.text == text.decode()

    cost = cost_of(lambda: read(5_000), lambda: read(10_000))
    assert cost.is_linear, cost


def test_a_server_that_died_within_a_transaction() -> None:
    made = opened(GTID, TABLE, changed(23, row(1, b"a")))
    said = made.decode(FORMAT)
    assert [type(one) for one in said] == [Rollback]
    assert values(made) == []


def test_a_table_that_changes_keeps_the_order_of_its_rows() -> None:
    other = event(
        19,
        NUMBER
        + b"\1\0\1d\0\1t\0"
        + b"\1\3\0\0"
        + b"\1\1\x80"
        + b"\4\x03"
        + texts(b"id"),
    )
    short = event(23, NUMBER + b"\1\0\1\xff" + b"\xfe" + struct.pack("<I", 2))
    made = opened(GTID, TABLE, changed(23, row(1, b"a")), END)
    for sent in (GTID, other, short, END, GTID, TABLE, changed(23, row(3, None)), END):
        made.decode(sent)
    found = [(len(rows.table.columns), rows.values) for rows in made.take()]
    assert found == [(2, [(1, b"a")]), (1, [(2,)]), (2, [(3, None)])]


def test_of_tables_that_are_not_wanted_nothing_is_kept() -> None:
    """A server may have a hundred thousand, or make ever new ones."""

    def other(number: int) -> bytes:
        name = b"%08d" % number
        return event(19, TABLE[19:27] + b"\1d\0\x08" + name + b"\0" + TABLE[33:-4])

    def read(first: int, count: int) -> None:
        for number in range(first, first + count):
            for sent in (GTID, other(number), changed(23, row(1, b"a")), END):
                made.decode(sent)

    made = Decoder(key_of, is_wanted=lambda name: name == ("d", "t"))
    for sent in (FORMAT, GTID, TABLE, changed(23, row(1, b"a")), END):
        made.decode(sent)
    read(0, 10)
    tracemalloc.start()
    try:
        read(10, 1_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 50_000
    for sent in (GTID, TABLE, changed(23, row(2, b"b")), END):
        made.decode(sent)
    assert values(made) == [(1, b"a"), (2, b"b")]


def test_other_tables_are_left_out() -> None:
    names: list[str] = []

    def wanted(table: TableMap) -> tuple[int, ...] | None:
        names.append(table.name)
        return (0,) if len(names) > 1 else None

    made = Decoder(wanted)
    for sent in (FORMAT, GTID, TABLE, changed(23, row(1, b"a")), END):
        made.decode(sent)
    assert values(made) == []
    made.look_again()
    for sent in (GTID, TABLE, changed(23, row(2, b"a")), END):
        made.decode(sent)
    assert values(made) == [(2, b"a")]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (event(39, NUMBER + b"\1\0\2\0\2\xff\xff"), "JSON"),
        (event(23, NUMBER + b"\1\0\2\xfd" + row(1, b"a")), "binlog_row_image"),
    ],
)
def test_rows_that_lack_something(sent: bytes, reason: str) -> None:
    made = opened(GTID, TABLE, changed(23, row(1, b"a")))
    (missed,) = made.decode(sent)
    assert isinstance(missed, Missed)
    assert missed.tables == (("d", "t"),)
    assert reason in missed.reason
    other = event(19, TABLE[19:-4].replace(b"note", b"text"))
    for more in (
        changed(23, row(2, b"a")),
        END,
        GTID,
        other,
        changed(23, row(3, b"a")),
    ):
        made.decode(more)
    assert values(made) == [(1, b"a")]
    made.decode(END)
    made.look_again()
    for more in (GTID, other, changed(23, row(4, b"a"))):
        made.decode(more)
    assert values(made) == [(4, b"a")]


def test_times_in_their_old_form_are_a_problem_of_their_table() -> None:
    old = (
        TABLE[19:-4].replace(b"\2\3\x0f\2", b"\2\7\x0f\2").replace(b"\1\1\x80", b"\1\0")
    )
    made = opened(GTID)
    (table,) = made.decode(event(19, old))
    assert isinstance(table, TableMap)
    assert "FORCE" in table.problem
    assert made.decode(changed(23, b"?")) == ()


def test_what_was_prepared_before_reading_began() -> None:
    """Nobody knows which tables it is about."""
    (missed,) = opened().decode(query(b"XA COMMIT X'61',X'',1"))
    assert isinstance(missed, Missed)
    assert missed.tables is None


@pytest.mark.parametrize("kind", [3, 5, 27, 29, 35, 160, 161, 163])
def test_what_says_nothing_of_rows(kind: int) -> None:
    assert opened(GTID, TABLE).decode(event(kind, b"?")) == ()


def test_a_place_in_another_file() -> None:
    """The first of a connection comes before the format, with a checksum or without."""
    body = struct.pack("<Q", 4) + b"binlog.1000000"
    for is_summed in (True, False):
        sent = event(4, body, flags=0x20, is_summed=is_summed)
        assert Decoder(lambda table: None).decode(sent) == (
            Rotate("binlog.1000000", 4),
        )


def test_a_log_without_checksums() -> None:
    made = Decoder(key_of)
    unsummed = plain(FORMAT)[:-1] + b"\0" + bytes(4)
    made.decode(unsummed[:9] + struct.pack("<I", len(unsummed)) + unsummed[13:])
    for sent in (GTID, TABLE, changed(23, row(1, b"a")), END):
        made.decode(plain(sent))
    assert values(made) == [(1, b"a")]


BROKEN = changed(23, row(1, b"a"))[:-1] + b"!"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ([GTID, TABLE, BROKEN], "another checksum"),
        ([GTID, TABLE, changed(23, row(1, b"a"))[:-1]], "another length"),
        ([GTID, TABLE, changed(23, row(1, b"a") + b"\xfc\1")], "requires a buffer"),
        ([GTID, TABLE, changed(23, row(1, b"abc")[:-1])], "a row that ends at"),
        ([GTID, changed(23, row(1, b"a"))], "a row without its table"),
        ([GTID, TABLE, END, changed(23, row(1, b"a"))], "without its transaction"),
        ([GTID, GTID], "within another one"),
        ([END], "a commit of no transaction"),
        ([query(b"ROLLBACK")], "a rollback of no transaction"),
        ([event(99, b"")], "an unknown kind"),
        ([payload(b"", method=1)], "unknown method"),
        ([event(40, b"\2\1\0\3\1\x09\0" + b"no zstd")], "ZSTD"),
        ([GTID, TABLE, event(166, NUMBER + b"\1\0\2\xff\x81\1?")], "incomplete or truncated"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused(sent: list[bytes], words: str) -> None:
    made = opened(*sent[:-1])
    with pytest.raises(TerminalError, match=words) as refused:
        made.decode(sent[-1])
    assert refused.value.code == "log_unreadable"


def test_what_may_be_left_out_is() -> None:
    assert opened().decode(event(99, b"?", flags=0x80)) == ()


def test_an_incident_stops_reading() -> None:
    with pytest.raises(TerminalError, match="changes are missing") as refused:
        opened().decode(event(26, b"\1\0"))
    assert refused.value.code == "log_incident"


@pytest.mark.parametrize("cut", range(27, len(TABLE) - 4, 3))
def test_a_description_that_is_cut_off(cut: int) -> None:
    made = opened(GTID)
    with contextlib.suppress(TerminalError):
        (table,) = made.decode(event(19, TABLE[19:cut]))
        assert isinstance(table, TableMap)
        assert table.problem
