"""Statements at the source beside its log: what is wanted of tables, publications and
slots there, each answered soon or the connection is given up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import psycopg

from catalog.schema.limits import LIMITS
from catalog.sources.postgresql.answers import answered_within
from catalog.sources.postgresql.columns import (
    COLUMNS,
    IDENTITY,
    LESSER_PARTS,
    PARTS,
    TYPES,
)
from catalog.sources.postgresql.types import SourceType
from core.sentences import Sentence
from ingest.contract.table import TableSpec
from ingest.sources.port import Row, SourceAccess
from ingest.sources.postgresql.connection import CONTROL_SETTINGS, DIALECT, connect
from ingest.sources.postgresql.fingerprint import read_forms
from ingest.sources.postgresql.log.parts import Came, Part
from ingest.sources.postgresql.log.pgoutput import Relation
from ingest.sources.postgresql.log.slot import Slot, read_slot
from ingest.sources.postgresql.log.tables import (
    Altered,
    SourceColumn,
    SourceTable,
    Unique,
    problem_of,
    problem_of_key,
    problem_of_parts,
    problem_of_unlogged_parts,
)
from ingest.sources.postgresql.snapshot import UNLIMITED

# Nobody else's work waits for these, but a log's reader does.
_SECONDS = 15
_SETTINGS = {
    **CONTROL_SETTINGS,
    "lock_timeout": f"{LIMITS.glance_lock}s",
    "statement_timeout": f"{_SECONDS}s",
    # a login that only reads may have it; publications are altered here
    "default_transaction_read_only": "off",
}
_NAME = (
    "SELECT concat(relnamespace::regnamespace::name, '.', relname) FROM pg_class"
    " WHERE oid = %s"
)
# A part that was made as one has its columns two commands before it is one, three where
# it has defaults of its own; one that was attached by the transaction that made it has
# them six before or more. The number of the command tells what came in between: a name
# or an owner may be another later, a system column is not.
_TABLES = f"""
SELECT w.schema, w.name, c.oid::bigint, c.relkind::text, c.relpersistence::text,
  c.relreplident::text,
  {IDENTITY},
  ARRAY(SELECT a.attname::text FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped),
  c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid),
  {LESSER_PARTS}, c.relfilenode::bigint, c.xmin::text::bigint,
  c.relnatts::int,
  mod(txid_snapshot_xmin(txid_current_snapshot()), 4294967296),
  ARRAY(SELECT ARRAY[h.inhrelid || '/' || h.xmin, l.relfilenode::text, l.xmin::text,
            CASE WHEN l.relkind = 'f' OR l.relpersistence <> 'p' THEN 'unlogged'
                 WHEN a.xmin <> h.xmin THEN 'filled'
                 WHEN h.cmin::text::bigint - a.cmin::text::bigint <= 3 THEN 'empty'
                 ELSE 'unknown' END]
        FROM {PARTS} p(relid)
        JOIN pg_inherits h ON h.inhrelid = p.relid
        JOIN pg_class l ON l.oid = p.relid
        JOIN pg_attribute a ON a.attrelid = p.relid AND a.attname = 'ctid'
        WHERE c.relkind = 'p'),
  ARRAY(SELECT ARRAY[a.attname::text, a.atttypid::text, a.atttypmod::text, a.xmin::text,
            a.atthasmissing::int::text]
        FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  ARRAY(SELECT ARRAY[a.attnum::text, a.xmin::text] FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attisdropped),
  (SELECT json_agg(json_build_array(i.indexrelid::bigint, x.relname, k.oid::bigint,
            i.indimmediate, x.relfilenode <> x.oid,
            ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid
                  AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]))))
   FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
   LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u')
   WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
   AND i.indpred IS NULL AND i.indexprs IS NULL)
FROM unnest(%s::text[], %s::text[]) w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
"""
# Of tables that are attached by those that made them; it waits for who locked one.
_EMPTY = """
SELECT o.oid FROM unnest(%s::bigint[]) o(oid) WHERE NOT EXISTS (
  SELECT FROM pg_partition_tree(o.oid::regclass) p
  WHERE coalesce(pg_relation_size(p.relid), 0) > 0)
"""
# The right to a table need not be one to its parts.
_READABLE = """
SELECT CASE WHEN has_table_privilege(p.part, 'SELECT') THEN p.part ELSE p.root END
  ::regclass::text
FROM (SELECT %s::oid, %s::oid) p(part, root)
"""
# Who made the file wrote at the beginning of it. Each place by itself: PostgreSQL reads
# the whole table for a range of them before version 14.
_BEGINNING = (
    "SELECT EXISTS (SELECT FROM {} WHERE tableoid = %s AND ctid = ANY(ARRAY("
    "SELECT format('(%%s,%%s)', b, i)::tid FROM generate_series(0, 99) b,"
    " generate_series(1, 300) i)) AND "
)
_ROW_OF = _BEGINNING + "xmin::text = ANY(%s))"
_ROW_BEFORE = _BEGINNING + "age(xmin) > age(%s::text::xid))"
# Which transactions have ended: the same ones, as long as it reads the same.
_SNAPSHOT = "SELECT txid_current_snapshot()::text"
_MONEY = "SELECT scale(0::money::numeric)"

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """kind, persistence: as in pg_class. has_children: by inheritance, whose rows the
    log has under their own names. numbers: of its columns, which one that is dropped
    and added again does not keep. lesser_parts: see `TableLog`. file: as `Identity` has
    it, and made: by which transaction, where nothing of it was altered behind. oldest:
    no transaction before this one is open. highest: number that a column has got.
    dropped: numbers of columns, and who did. forms: as `Identity` has them."""

    oid: int
    kind: str
    persistence: str
    has_children: bool
    numbers: Mapping[str, int]
    table: SourceTable
    lesser_parts: tuple[str, ...]
    file: int = 0
    made: int = 0
    highest: int = 0
    oldest: int = 0
    parts: Mapping[str, Part] = field(default_factory=dict)
    altered: Mapping[str, Altered] = field(default_factory=dict)
    dropped: Mapping[int, int] = field(default_factory=dict)
    uniques: tuple[Unique, ...] = ()
    forms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def sent(self) -> dict[str, int]:
        """Numbers of the columns that the log carries."""
        made = self.table.generated
        return {name: one for name, one in self.numbers.items() if name not in made}

    def logged_since(self, file: int) -> SourceTable:
        """Without columns that may have values of their own in every row, which its log
        does not show: of those that came since it was in that file, if it is not yet.
        file: 0 = any."""
        if file in {0, self.file}:
            return self.table
        of = {name for name, one in self.altered.items() if one.is_unwritten}
        return replace(
            self.table, columns=tuple(c for c in self.table.columns if c.name in of)
        )

    def problem_of(self, table: TableSpec) -> str:
        """Why its changes cannot be followed; "" = they can."""
        if self.kind not in "rp" or self.persistence != "p":
            return Sentence(
                "%(table)s is not an ordinary table, so the log has nothing of it;"
                " sync it by a timestamp or by loads",
                table=table.at_source,
            )
        if self.has_children:
            return Sentence(
                "%(table)s has child tables by inheritance, whose rows the log has"
                " under their own names; follow the child tables, or sync it by a"
                " timestamp",
                table=table.at_source,
            )
        return (
            problem_of(table, self.table)
            or problem_of_unlogged_parts(table, self.parts)
            or problem_of_parts(table, self.lesser_parts)
            or problem_of_key(table, self.uniques)
        )


@dataclass(slots=True)
class Control:
    connection: psycopg.Connection[Row]
    _types: dict[tuple[int, int], SourceType] = field(default_factory=dict)

    def rows(self, sql: str, parameters: Any = None) -> list[Row]:
        """psycopg.Error, of a source that does not answer, too."""
        with answered_within(self.connection, 2 * _SECONDS):
            return self.connection.execute(sql.encode(), parameters).fetchall()

    def run(self, statement: str) -> None:
        """Every dynamic part of it went through the dialect."""
        with answered_within(self.connection, 2 * _SECONDS):
            self.connection.execute(statement.encode())

    @contextlib.contextmanager
    def unwaiting(self) -> Iterator[None]:
        """Statements within wait for no lock that somebody has."""
        self.run("SET lock_timeout = '1ms'")
        try:
            yield
        finally:
            self.run(f"SET lock_timeout = {_SETTINGS['lock_timeout']!r}")

    def slot(self, name: str) -> Slot | None:
        """See `read_slot`."""
        with answered_within(self.connection, 2 * _SECONDS):
            return read_slot(self.connection, name)

    def snapshot(self) -> str:
        """Another one once any transaction that changed something has ended."""
        return str(self.rows(_SNAPSHOT)[0][0])

    def name_of(self, oid: int) -> str:
        """With its schema; "" when there is no such table."""
        found = self.rows(_NAME, [oid])
        return str(found[0][0]) if found else ""

    def money_digits(self) -> int:
        return int(self.rows(_MONEY)[0][0])

    def tables(self, wanted: Sequence[TableSpec]) -> dict[Name, FoundTable]:
        """Those that are there, by schema and name."""
        names = [(table.source_schema, table.source_table) for table in wanted]
        found = self.rows(_TABLES, [[s for s, _ in names], [t for _, t in names]])
        columns: dict[int, list[Row]] = {}
        if not found:
            return {}
        for row in self.rows(COLUMNS, {"oids": [row[2] for row in found]}):
            columns.setdefault(int(row[0]), []).append(row)
        forms = read_forms(lambda *one: self.rows(*one)[0], [row[2] for row in found])
        return {
            (schema, name): FoundTable(
                oid,
                kind,
                persistence,
                has_children,
                {row[2]: int(row[1]) for row in columns.get(oid, [])},
                _table(identity, tuple(key), tuple(made), tuple(columns.get(oid, ()))),
                tuple(lesser),
                file,
                by,
                highest,
                oldest,
                {key: _part(*more) for key, *more in parts},
                {name: Altered(*map(int, more)) for name, *more in altered},
                {int(number): int(xid) for number, xid in dropped},
                tuple(map(_unique, uniques or ())),
                forms.get(oid, {}),
            )
            for schema, name, oid, kind, persistence, identity, key, made, has_children,
            lesser, file, by, highest, oldest, parts, altered, dropped, uniques
            in found
        }  # fmt: skip

    def empty(self, numbers: Sequence[int]) -> set[int]:
        """Those of these tables that never had a row in the file that they have."""
        return {int(one) for (one,) in self.rows(_EMPTY, [[*numbers]])}

    def has_row_of(self, root: int, part: int, xids: Sequence[int]) -> bool:
        """Whether one of these transactions has a row at the beginning of a partition.
        False where the login may not find out."""
        return self._is_at_beginning(_ROW_OF, root, part, [str(one) for one in xids])

    def has_row_before(self, number: int, xid: int) -> bool:
        """The same of a table and all transactions before this one."""
        return self._is_at_beginning(_ROW_BEFORE, number, number, xid)

    def _is_at_beginning(self, sought: str, root: int, part: int, of: Any) -> bool:
        name = str(self.rows(_READABLE, [part, root])[0][0])
        try:
            sql = sought.format(name.replace("%", "%%"))
            return bool(self.rows(sql, [part, of])[0][0])
        except psycopg.errors.InsufficientPrivilege:
            return False

    def described(self, relation: Relation, generated: frozenset[str]) -> SourceTable:
        """What the log says of a table, with the types that its numbers stand for."""
        types = self.types((c.type, c.modifier) for c in relation.columns)
        columns = tuple(
            SourceColumn(c.name, types[c.type, c.modifier], c.is_key)
            for c in relation.columns
        )
        there = {column.name for column in columns}
        return SourceTable(relation.identity, columns, generated - there)

    def types(self, wanted: Iterator[tuple[int, int]]) -> Mapping[Any, SourceType]:
        """By number and modifier; one that is there no more has the text ""."""
        pairs = set(wanted)
        if unknown := sorted(pairs - self._types.keys()):
            asked = {
                "oids": [p[0] for p in unknown],
                "modifiers": [p[1] for p in unknown],
            }
            found = self.rows(TYPES, asked)
            for oid, modifier, text, kind, in_array in found:
                self._types[int(oid), int(modifier)] = _type(text, kind, in_array, 0)
        gone = SourceType("")
        return {pair: self._types.get(pair, gone) for pair in pairs}


@contextlib.contextmanager
def open_control(access: SourceAccess) -> Iterator[Control]:
    connection = connect(access)
    with contextlib.closing(connection):
        control = Control(connection)
        control.rows(UNLIMITED)
        for setting, value in _SETTINGS.items():
            control.run(f"SET {setting} = {DIALECT.literal(value)}")
        yield control


def _unique(one: list[Any]) -> Unique:
    number, name, constraint, is_immediate, is_rebuilt, columns = one
    return Unique(
        number, name, constraint, is_immediate, is_rebuilt, frozenset(columns)
    )


def _part(file: str, since: str, came: Came) -> Part:
    return Part(int(file), int(since), came)


# of hundreds of tables hardly one is another than at the look before
@lru_cache(maxsize=4096)
def _table(
    identity: str,
    key: tuple[str, ...],
    generated: tuple[str, ...],
    rows: tuple[Row, ...],
) -> SourceTable:
    columns = tuple(
        SourceColumn(
            name,
            _type(text, kind, in_array, dims),
            identity == "f" or name in key,
            bool(may_read),
        )
        for _, _, name, text, kind, in_array, dims, *_, may_read in rows
        if name not in generated
    )
    return SourceTable(identity, columns, frozenset(generated))


def _type(text: str, kind: str, in_array: object, dimensions: int = 0) -> SourceType:
    if in_array:
        return SourceType(f"{text}[]", "b", text, kind, dimensions)
    return SourceType(text, kind)
