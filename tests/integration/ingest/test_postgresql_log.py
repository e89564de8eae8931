"""PostgreSQL's log against a real server: what it says of rows is what a snapshot reads,
and nothing is told to the server but what is durable."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from catalog.schema.types import DataType
from catalog.sources.postgresql.columns import COLUMNS
from catalog.sources.postgresql.types import SourceType, lake_type
from core.errors import InvalidRequest, TransientError
from ingest.contract.segments import OP, UNCHANGED, XID
from ingest.contract.source_positions import PostgresLog, lsn_of
from ingest.contract.table import ColumnSpec
from ingest.sources.postgresql.connection import CONTROL_SETTINGS, DIALECT
from ingest.sources.postgresql.log.connection import LogConnection, open_log
from ingest.sources.postgresql.log.control import open_control
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
    Rows,
)
from ingest.sources.postgresql.log.slot import (
    drop_slot,
    end_holder,
    make_slot,
    read_slot,
)
from ingest.sources.postgresql.log.values import RowReader, codec_of
from ingest.sources.select import select_columns
from tests.source_access import postgresql_at
from tests.source_server import SourceServer
from tests.waiting import wait_for

Link = psycopg.Connection[tuple[Any, ...]]


@dataclass
class Logged:
    """A database with a slot, and what its log said. told: boundaries and messages."""

    link: Link
    reader: LogConnection
    decoder: Decoder
    told: list[object]

    def until_now(self, *, part: int = 1 << 30) -> list[Rows]:
        """All rows of transactions that ended by now, taken by so many bytes."""
        (place,) = self.link.execute(
            "SELECT pg_logical_emit_message(false, 'now', '')"
        ).fetchone() or ("",)
        found: list[Rows] = []

        def is_there() -> bool:
            for message in self.reader.read(0.1):
                if (what := self.decoder.decode(message)) is not None:
                    self.told.append(what)
                if self.decoder.size >= part:
                    found.extend(self.decoder.take())
            return self.reader.sent_to >= lsn_of(place) and not self.decoder.is_within

        wait_for(is_there, "the log up to now")
        return [*found, *self.decoder.take()]


@pytest.fixture
def dsn(log_dsn: str) -> str:
    return log_dsn


@pytest.fixture
def link(dsn: str) -> Iterator[Link]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        for setting, value in CONTROL_SETTINGS.items():
            opened.execute(f"SET {setting} = {DIALECT.literal(value)}")
        opened.execute("SET search_path = public; CREATE PUBLICATION p FOR ALL TABLES")
        yield opened


def slot_in(link: Link) -> str:
    name = f"s_{uuid.uuid4().hex[:8]}"
    assert read_slot(link, name) is None
    assert make_slot(link, name) == confirmed(link, name)
    return name


@pytest.fixture
def logged(dsn: str, link: Link) -> Iterator[Logged]:
    slot = slot_in(link)
    with open_log(postgresql_at(dsn)) as reader:
        reader.start(slot, ["p"], after=0)
        yield Logged(link, reader, Decoder(key_of), [])


def key_of(relation: Relation) -> tuple[int, ...] | None:
    names = [column.name for column in relation.columns]
    return (names.index("id"),) if "id" in names else None


# Types, and literals of values that have to be equal both ways.
TYPES = {
    "boolean": ["'t'", "'f'"],
    "smallint": ["-32768", "32767"],
    "integer": ["-2147483648", "0"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "oid": ["4294967295"],
    "real": ["'NaN'", "'-Infinity'", "0.1", "3.4028235e38", "1e-45", "'-0'"],
    "double precision": ["'NaN'", "'Infinity'", "0.1", "1e-300", "5e-324", "1e308"],
    "numeric": ["1.50", "'NaN'", "'Infinity'", "1e40", "-0.000"],
    "numeric(12,2)": ["1.5", "'NaN'", "-9999999999.99"],
    "numeric(10,-2)": ["12345"],
    "numeric(3,5)": ["0.00123"],
    "numeric(60,20)": ["1.00000000000000000001"],
    "text": ["''", "'ü €  \\ \" '''", "E'a\\nb\\tc'", "repeat('x', 5000)"],
    "varchar(5)": ["'ab   '"],
    "character(5)": ["'ab'", "'     '", "' a'"],
    "name": ["'n'"],
    '"char"': ["'c'", "''"],
    "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "json": ["'{\"b\" : 1, \"a\": 1.0}'"],
    "jsonb": ["'{\"b\" : 1, \"a\": 1.0}'"],
    "bytea": ["''", "'\\x00ff5c27'"],
    "date": ["'0001-01-01'", "'9999-12-31'", "'infinity'", "'0044-03-15 BC'", "'12024-01-01'", "'1582-10-10'"],
    "timestamp": ["'0001-01-01'", "'2024-02-29 12:34:56.123456'", "'-infinity'", "'10000-01-01'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'"],
    "timestamp(0)": ["'2024-02-29 12:34:56.6'"],
    "timestamptz": ["'0001-01-01 00:00+00'", "'0001-01-01 00:00+05'", "'2024-02-29 12:34:56.1+05:30'", "'infinity'"],
    "time": ["'24:00'", "'12:34:56.789'"],
    "timetz": ["'12:34:56.789+05:30'"],
    "interval": ["'1 year -2 days 03:04:05.6'", "'0'", "'-1 day +24 hours'"],
    "money": ["1234.56", "-0.05", "0", "-92233720368547758.08", "92233720368547758.07"],
    "inet": ["'1.2.3.4'", "'1.2.3.4/8'", "'::1'", "'2001:db8::/32'"],
    "cidr": ["'10.0.0.0/8'", "'1.2.3.4'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "bit(5)": ["B'10101'"],
    "bit varying(9)": ["B''", "B'101'"],
    "pg_lsn": ["'16/B374D848'"],
    "tsvector": ["'a fat cat:3'"],
    "tsquery": ["'a & b'"],
    "point": ["'(1,2.5)'"],
    "polygon": ["'((0,0),(1,1),(1,0))'"],
    "int4range": ["'[1,5)'", "'empty'"],
    "numrange": ["'[1.0,2.00]'"],
    "tstzrange": ["'[2024-01-01 00:00+02,)'"],
    "int4multirange": ["'{[1,2),[5,6)}'"],
    "jsonpath": ["'$.a'"],
    "color": ["'red'", "'Blue \"x\", {y}'"],
    "pair": ["ROW(1, 'a \"b\", c')", "ROW(NULL, '')"],
    "cents": ["1.5"],
    "padded": ["'a'"],
    "integer[]": ["'{}'", "'{1,NULL,3}'", "'[0:1]={7,8}'", "'{{1,2},{3,4}}'"],
    "text[]": ["ARRAY['a,b', 'c\"d', '\\', '', NULL, 'NULL', '{x}', ' y ', E'l\\n']", "'{null,x}'"],
    "boolean[]": ["'{t,f,NULL}'"],
    "numeric(5,2)[]": ["'{1.5,NaN,NULL}'", "'{-1}'"],
    "date[]": ["'{2024-02-29,infinity,0001-01-01}'", "'{9999-12-31}'"],
    "timestamptz[]": ["'{2024-02-29 12:34:56.5+02}'", "'{NULL,-infinity}'"],
    "timestamp[]": ["'{2024-02-29 12:34:56.5}'"],
    "double precision[]": ["'{NaN,0.1,-Infinity}'"],
    "bytea[]": ["ARRAY['\\x00ff'::bytea, '\\x', NULL]"],
    "character(3)[]": ["'{a,bcd}'"],
    "inet[]": ["'{1.2.3.4,::1/64}'"],
    "money[]": ["'{1234.5,-0.05}'"],
    "box[]": ["'{(1,1),(0,0);(3,3),(2,2)}'"],
    "point[]": ["ARRAY['(1,2)'::point, '(3,4)']"],
    "color[]": ["ARRAY['red', NULL, 'Blue \"x\", {y}']::color[]"],
    "uuid[]": ["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"],
    "jsonb[]": ["ARRAY['{\"a\": [1, \"x\"]}'::jsonb]"],
    "interval[]": ["'{1 day 02:00}'"],
}  # fmt: skip
OWN = """
CREATE TYPE color AS ENUM ('red', 'Blue "x", {y}');
CREATE TYPE pair AS (n int, t text);
CREATE DOMAIN cents AS numeric(10,2) CHECK (VALUE > 0);
CREATE DOMAIN padded AS character(4)
"""


def columns_of(link: Link, table: str) -> list[ColumnSpec]:
    oid = link.execute("SELECT %s::regclass::oid", [table]).fetchone()
    assert oid
    found = link.execute(COLUMNS, {"oids": [oid[0]]}).fetchall()
    specs = []
    for _, _, name, text, kind, in_array, dims, *_ in found:
        source = (
            SourceType(f"{text}[]", "b", text, kind, dims)
            if in_array
            else SourceType(text, kind)
        )
        mapped = lake_type(source)
        assert mapped.type, (text, mapped.reason)
        specs.append(ColumnSpec(name, name, source.text, mapped.type))
    return specs


def snapshot_of(
    link: Link, table: str, columns: list[ColumnSpec]
) -> list[tuple[Any, ...]]:
    selection = select_columns(DIALECT, columns)
    statement = selection.sql(DIALECT.qualified("public", table), "true")
    return link.execute(f"{statement} ORDER BY id").fetchall()


def as_read(column: ColumnSpec, values: list[Any]) -> list[Any]:
    """What the driver makes of a snapshot's column: days are dates, microseconds are
    moments, texts in arrays are their elements."""
    type = DataType.parse(column.type)
    if type.name == "date":
        return pa.array(values, pa.int32()).cast(pa.date32()).to_pylist()
    if type.name.startswith("timestamp"):
        moments = pa.array(values, pa.int64())
        zone = "UTC" if type.name == "timestamp" else None
        return moments.cast(pa.timestamp("us", zone)).to_pylist()
    if type.name == "float":
        return pa.array(values, pa.float32()).to_pylist()
    if type.name != "array":
        return values
    element = ColumnSpec("", "", "text", type.element)
    codec = codec_of(element)
    found = []
    for one in values:
        if type.element == "boolean" and one is not None:
            one = [None if v is None else v[0] for v in one]
        texts = None if one is None else codec(pa.array(one, pa.string()))[0]
        found.append(None if texts is None else texts.to_pylist())
    return found


def differences(link: Link, table: str, rows: list[Rows]) -> list[object]:
    """Of what the log said of a table's rows and what a snapshot reads."""
    columns = columns_of(link, table)
    found: list[object] = []
    expected = list(zip(*snapshot_of(link, table, columns), strict=True))
    for one in rows:
        batch = RowReader.of(one.relation, columns).batch(one)
        for place, column in enumerate(columns):
            mine = batch[f"c{place}"].to_pylist()
            read = as_read(column, list(expected[place]))
            if repr(mine) != repr(read):
                found.append((column, mine, read))
        if len(expected) > len(columns) and batch["m0"].to_pylist() != [*expected[-1]]:
            found.append((columns, batch["m0"].to_pylist(), expected[-1]))
    return found


def test_the_log_and_a_snapshot_read_equal_values(logged: Logged) -> None:
    """First as rows were made, then as an update of every row sends them again."""
    link = logged.link
    link.execute(OWN)
    for number, (type, literals) in enumerate(TYPES.items()):
        link.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY, v {type})")
        for key, literal in enumerate(["NULL", *literals]):
            link.execute(f"INSERT INTO t{number} VALUES ({key}, {literal})")
        link.execute(f"ALTER TABLE t{number} REPLICA IDENTITY FULL")
        link.execute(f"UPDATE t{number} SET v = v")
    found: dict[str, list[Rows]] = {}
    for rows in logged.until_now():
        found.setdefault(rows.relation.name, []).append(rows)
    assert [[r.ops[0] for r in found[f"t{n}"]] for n in range(len(TYPES))] == [
        [INSERT, UPDATE]
    ] * len(TYPES)
    wrong = {
        type: differences(link, f"t{number}", found[f"t{number}"])
        for number, type in enumerate(TYPES)
    }
    assert {type: what for type, what in wrong.items() if what} == {}


def test_what_happened_comes_in_its_order(logged: Logged) -> None:
    link = logged.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text, w int)")
    link.execute("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    link.execute("CREATE TABLE other (n int)")
    link.execute("INSERT INTO t VALUES (1, repeat('x', 9000), 1), (2, 'b', 2)")
    link.execute("INSERT INTO other VALUES (1)")
    with link.transaction():
        link.execute("UPDATE t SET w = 10 WHERE id = 1")
        link.execute("UPDATE t SET id = 3 WHERE id = 1")
        link.execute("DELETE FROM t WHERE id = 2")
        link.execute("TRUNCATE t, other")
        link.execute("INSERT INTO t VALUES (1, 'new', 0)")
        with link.transaction(force_rollback=True):
            link.execute("INSERT INTO t VALUES (9, 'never', 0)")
    (rows,) = logged.until_now()
    columns = [
        ColumnSpec(n, n, t, t)
        for n, t in (("w", "int"), ("v", "string"), ("id", "int"))
    ]
    batch = RowReader.of(rows.relation, columns).batch(rows)
    assert batch[OP].to_pylist() == [
        INSERT, INSERT, UPDATE, DELETE, MOVED, DELETE, TRUNCATE, INSERT,
    ]  # fmt: skip
    assert batch["c2"].to_pylist() == [1, 2, 1, 1, 3, 2, None, 1]
    assert batch["c1"].to_pylist()[2:] == [None] * 5 + ["new"]
    # the text is the second of the columns that are carried
    assert batch[UNCHANGED].to_pylist() == [
        None,
        None,
        b"\2",
        None,
        b"\2",
        None,
        None,
        None,
    ]
    begins = [one for one in logged.told if isinstance(one, Begin)]
    ends = [one for one in logged.told if isinstance(one, Commit)]
    assert set(batch[XID].to_pylist()) == {begins[0].xid, begins[-1].xid}
    assert [one.commit for one in begins] == [one.commit for one in ends]
    places = [one.end for one in ends]
    assert places == sorted(places)


def test_full_old_rows_leave_nothing_unchanged(logged: Logged) -> None:
    link = logged.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text, w int)")
    link.execute("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    link.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    link.execute("INSERT INTO t VALUES (1, repeat('x', 9000), 1)")
    link.execute("UPDATE t SET w = 2; UPDATE t SET id = 5; DELETE FROM t")
    (rows,) = logged.until_now()
    assert rows.unchanged == {}
    assert rows.ops == [INSERT, UPDATE, DELETE, MOVED, DELETE]
    assert {values[1] for values in rows.values} == {b"x" * 9000}
    assert [values[0] for values in rows.values] == [b"1", b"1", b"1", b"5", b"5"]


def test_an_altered_table_is_described_anew(logged: Logged) -> None:
    link = logged.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with link.transaction():
        link.execute("INSERT INTO t VALUES (1, 'a')")
        link.execute("ALTER TABLE t ADD n int DEFAULT 5, DROP v")
        link.execute("INSERT INTO t VALUES (2)")
    found = logged.until_now()
    assert [[c.name for c in one.relation.columns] for one in found] == [
        ["id", "v"],
        ["id", "n"],
    ]
    assert [one.values for one in found] == [[(b"1", b"a")], [(b"2", b"5")]]


def test_a_large_transaction_is_taken_in_parts(logged: Logged) -> None:
    link = logged.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY)")
    link.execute("INSERT INTO t SELECT generate_series(1, 25000)")
    found = logged.until_now(part=100_000)
    assert len(found) > 3
    values = [row[0] for one in found for row in one.values]
    assert values == [str(n).encode() for n in range(1, 25001)]
    assert len([one for one in logged.told if isinstance(one, Commit)]) == 1


def confirmed(link: Link, name: str) -> int:
    found = read_slot(link, name)
    assert found is not None
    return found.confirmed


def test_a_slot_from_beginning_to_end(dsn: str, link: Link) -> None:
    name = slot_in(link)
    found = read_slot(link, name)
    assert found is not None
    assert (found.is_active, found.is_lost, found.left) == (False, False, None)
    with open_log(postgresql_at(dsn)) as reader:
        reader.start(name, ["p"], after=0)
        assert not drop_slot(link, name)
        # a reader that was superseded holds it no longer
        end_holder(link, name)
        wait_for(lambda: drop_slot(link, name), "the slot to be dropped")
    assert read_slot(link, name) is None
    assert not drop_slot(link, name)


def test_a_slot_that_serves_something_else_is_left_alone(link: Link) -> None:
    name = f"s_{uuid.uuid4().hex[:8]}"
    link.execute("SELECT pg_create_physical_replication_slot(%s)", [name])
    try:
        with pytest.raises(InvalidRequest) as other:
            read_slot(link, name)
        assert other.value.code == "slot_of_another"
    finally:
        link.execute("SELECT pg_drop_replication_slot(%s)", [name])


def test_the_server_is_told_what_is_durable_and_nothing_else(
    dsn: str, link: Link
) -> None:
    link.execute("CREATE TABLE t (id int PRIMARY KEY)")
    slot = slot_in(link)
    began = confirmed(link, slot)
    with open_log(postgresql_at(dsn)) as reader:
        reader.start(slot, ["p"], after=began)
        told = Logged(link, reader, Decoder(key_of), [])
        link.execute("INSERT INTO t VALUES (1)")
        link.execute("INSERT INTO t VALUES (2)")
        told.until_now()
        ends = [one.end for one in told.told if isinstance(one, Commit)]
        reader._tell(wants_answer=True)
        told.until_now()
        assert confirmed(link, slot) == began < reader.sent_to
        reader.acknowledge(ends[0])
        wait_for(lambda: confirmed(link, slot) == ends[0], "the first to be told")
    with open_log(postgresql_at(dsn)) as reader:
        wait_for(lambda: started(reader, slot, ends[0]), "the slot to be free")
        told = Logged(link, reader, Decoder(key_of), [])
        (rows,) = told.until_now()
        assert rows.values == [(b"2",)]
        # what was told stays told
        reader.acknowledge(began)
        told.until_now()
        assert confirmed(link, slot) == ends[0]


def started(reader: LogConnection, slot: str, after: int) -> bool:
    try:
        reader.start(slot, ["p"], after=after)
    except TransientError as error:
        return error.code != "log_refused"
    return True


def test_who_the_server_is(dsn: str, link: Link) -> None:
    (system,) = link.execute(
        "SELECT system_identifier::text FROM pg_control_system()"
    ).fetchone() or ("",)
    with open_log(postgresql_at(dsn)) as reader:
        assert reader.started.identity == f"{system}:1"
        assert PostgresLog.decode(reader.started.encode()) == reader.started
        with pytest.raises(TransientError, match="none_such") as refused:
            reader.start("none_such", ["p"], after=0)
        assert refused.value.code == "log_refused"


def test_types_have_their_names_whatever_a_database_sets(dsn: str, link: Link) -> None:
    """Those by which its tables were planned, or all of them would need a resync."""
    name = link.info.dbname
    link.execute(f'ALTER DATABASE "{name}" SET quote_all_identifiers = on')
    with open_control(postgresql_at(dsn)) as control:
        found = control.types(iter([(25, -1), (1043, 13)]))
    assert {one.text for one in found.values()} == {"text", "character varying(9)"}


def test_a_row_that_is_no_text_ends_no_connection(source_pg: SourceServer) -> None:
    name = f"log_{uuid.uuid4().hex[:8]}"
    dsn = source_pg.create_database(name, like="template0", encoding="SQL_ASCII")
    with psycopg.connect(dsn, autocommit=True, client_encoding="utf8") as link:
        link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        link.execute("CREATE PUBLICATION p FOR ALL TABLES")
        slot = slot_in(link)
        with open_log(postgresql_at(dsn)) as reader:
            reader.start(slot, ["p"], after=0)
            link.execute(r"INSERT INTO t VALUES (1, E'caf\xc3\xa9'), (2, E'bad\xe9')")
            decoder = Decoder(key_of)
            come: list[bytes] = []

            def has_both() -> bool:
                come.extend(reader.read(0.2))
                return len(come) > 4

            wait_for(has_both, "its rows")
            for message in come:
                decoder.decode(message)
            (rows,) = decoder.take()
        assert [row[1] for row in rows.values] == ["café".encode(), b"bad\xe9"]
        wait_for(lambda: drop_slot(link, slot), "its slot")
    source_pg.drop_database(name)


def test_the_end_of_the_connection_is_told(dsn: str, link: Link) -> None:
    slot = slot_in(link)
    with open_log(postgresql_at(dsn)) as reader:
        reader.start(slot, ["p"], after=0)
        link.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = %s",
            [slot],
        )
        with pytest.raises(TransientError) as ended:
            wait_for(lambda: reader.read(1.0) and None, "the end")
        assert ended.value.code == "log_ended"
        assert "administrator" in ended.value.message
