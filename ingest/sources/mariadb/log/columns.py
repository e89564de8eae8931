"""Columns of a followed table, over the statements that alter it.

The log has a statement's text, and rows with the columns of their moment. What a
statement did is found out by a look at the table behind it, and counts as long as no
other statement of before that look concerns the same columns. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from catalog.schema.widening import keeps_values, widens_in_place
from catalog.sources.mariadb.older import NO_OLDER, Older, given
from catalog.sources.mariadb.types import lake_type
from core.sentences import Sentence
from ingest.contract.following import Replaced
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.ahead import undecided
from ingest.sources.mariadb.log import table_map as kinds
from ingest.sources.mariadb.log.swaps import Shadow
from ingest.sources.mariadb.log.table_map import LogColumn, TableMap
from ingest.sources.mariadb.log.values import codec_of

_INTEGERS = frozenset({kinds.TINY, kinds.SHORT, kinds.INT24, kinds.LONG})
_MOST_DIGITS = 38

# The ends of the log just before a look at a table and just behind it.
Looked = tuple[MariaDbLog, MariaDbLog]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """As information_schema has it. made: how the server makes its values; "" = they
    are what is written."""

    type: str
    charset: str = ""
    is_nullable: bool = True
    made: str = ""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as it is now. cascade: a foreign key of its own by which rows of another
    table change its; "" = none. hidden: columns that the login may not read. older:
    what each column gives to rows that are there as it is added. uniques: columns of
    its unique indexes, whose names are in lower case."""

    engine: str
    columns: Mapping[str, SourceColumn]
    cascade: str = ""
    is_versioned: bool = False
    hidden: frozenset[str] = frozenset()
    older: Older = NO_OLDER
    uniques: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def guards(self, key: Collection[str]) -> tuple[str, ...]:
        """Indexes that let no two rows have the same key."""
        wanted = {*key}
        return tuple(name for name, one in self.uniques.items() if one <= wanted)


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of a table's columns, from its cut on.

    columns    that it had then, or got by statements that are known
    older      those of them that came since, and what rows of before have
    untold     the same, of which nobody can know it
    looked     the place of the log behind which the newest look at it was: it has seen
               all that is before
    until      the place before which it was: of what is between, nobody knows
    touched    columns that statements concerned which it saw, one time each
    tightened  columns that it saw NOT NULL, and no statement yet by which they are
    gone       those that were dropped since
    shadow     the table that a tool fills to take its place; replaced: one that did
    guards     indexes that have kept its key unique since; () = none did at its cut
    given      those of `older` of which the statement says it that added them
    """

    columns: Mapping[str, SourceColumn]
    older: Mapping[str, str | None]
    untold: tuple[str, ...]
    looked: str
    until: str
    touched: tuple[str, ...] = ()
    tightened: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    shadow: Shadow | None = None
    replaced: Replaced | None = None
    guards: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, found: FoundTable, looked: Looked, *, key: Collection[str] = ()
    ) -> Identity:
        begin, end = map(MariaDbLog.encode, looked)
        return cls(found.columns, {}, (), begin, end, guards=found.guards(key))

    @classmethod
    def decode(cls, text: str) -> Identity:
        return msgspec.json.decode(text, type=cls)

    def encode(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()

    def has_seen(self, place: MariaDbLog) -> bool:
        """Whether the look was behind that place."""
        return place.order(MariaDbLog.decode(self.looked)) in {"before", "equal"}

    def touching(self, touches: Collection[str], *, is_strict: bool) -> Identity:
        """Behind a statement that the look has seen. ValueError when that saw what
        another one made of the same columns, or what this one made of NULLs."""
        if twice := _words(sorted({*self.touched} & {*touches})):
            raise ValueError(
                Sentence(
                    "%(columns)s was altered again before its columns were read, so"
                    " what the first time did to its values is not known",
                    columns=twice,
                )
            )
        found = replace(self, touched=tuple(sorted({*self.touched, *touches})))
        return found._explained(touches, is_strict=is_strict)

    def adding(self, said: Iterable[tuple[str, str | None]]) -> Identity:
        """Behind a statement that adds these, and a look. What it says they gave to
        rows of before counts: the look may have seen another default."""
        older, found = dict(self.older), self
        names = {name.lower(): name for name in (*older, *self.untold)}
        for lower, default in said:
            name = names.get(lower, "")
            column = self.columns.get(name)
            if column is None or column.made:
                continue
            value = given(column.type, default, is_nullable=column.is_nullable)
            if value is None:
                continue
            older[name] = value.values.get("")
            found = replace(
                found,
                untold=tuple(n for n in found.untold if n != name),
                given=tuple(sorted({*found.given, name})),
            )
        return replace(found, older=older)

    def defaulted(self, names: Collection[str], *, at: MariaDbLog) -> Identity:
        """Behind a statement, at that place, by which later rows get other defaults in
        these, which they carry. What a column gave to rows of before is not known then
        where the look that saw it come may have seen the other default."""
        if at.order(MariaDbLog.decode(self.until)) == "after":
            return self
        late = {*names} & {*self.touched}
        lost = tuple(
            name
            for name in self.older
            if name.lower() in late and name not in self.given
        )
        older = {name: v for name, v in self.older.items() if name not in lost}
        return replace(self, older=older, untold=(*self.untold, *lost))

    def altered(
        self,
        now: FoundTable,
        looked: Looked,
        touches: Collection[str],
        *,
        at: MariaDbLog,
        is_strict: bool,
    ) -> Identity:
        """Behind a statement, at that place, of which it is not known that the look has
        seen it. is_strict: the server refuses to change a value for its new type.
        ValueError says what may have changed."""
        tightened = set(self.tightened)
        for name, column in now.columns.items():
            before = self.columns.get(name)
            if before and not _keeps(before, column):
                raise ValueError(
                    Sentence(
                        "%(column)s was %(before)s and is %(now)s now, which may have"
                        " changed values",
                        column=name,
                        before=_described(before),
                        now=_described(column),
                    )
                )
            if before and before.is_nullable and not column.is_nullable:
                tightened.add(name.lower())
        # of a look at another server it is not known which statements it has seen
        until = at.order(MariaDbLog.decode(self.until))
        touched = set[str]() if until == "after" else {*self.touched}
        new = [name for name in now.columns if name not in self.columns]
        told = {
            name: now.older.values.get(name)
            for name in new
            if name not in now.older.untold
        }
        found = replace(
            self,
            columns={**self.columns, **now.columns},
            older={**self.older, **told},
            untold=(*self.untold, *(name for name in new if name not in told)),
            looked=looked[0].encode(),
            until=looked[1].encode(),
            touched=tuple(sorted(touched)),
            tightened=tuple(sorted(tightened)),
        )
        return found.touching(touches, is_strict=is_strict)

    def without(self, drops: Collection[str], now: FoundTable | None) -> Identity:
        """Behind a statement that drops these, and a look behind that. One that is
        there then has another statement that brought it again."""
        there = now.columns.keys() if now else frozenset[str]()
        gone = {n for n in self.columns if n.lower() in drops and n not in there}
        return replace(
            self,
            columns={n: c for n, c in self.columns.items() if n not in gone},
            older={n: v for n, v in self.older.items() if n not in gone},
            untold=tuple(n for n in self.untold if n not in gone),
            gone=tuple(sorted({*self.gone, *gone})),
            given=tuple(n for n in self.given if n not in gone),
        )

    def guarded_behind(self, keys: Iterable[tuple[str, str]]) -> Identity | None:
        """None where two rows may have the same key from then on: a delete would be of
        either. keys: see `Effect`."""
        names = dict.fromkeys(self.guards)
        for former, new in keys:
            if former in names:
                del names[former]
                names |= {new: None} if new else {}
        if self.guards and not names:
            return None
        return replace(self, guards=tuple(names))

    @property
    def had(self) -> frozenset[str]:
        """All columns that it has, or had since its cut."""
        return frozenset({*self.columns, *self.gone})

    def replaced_by(self, other: Replaced, now: FoundTable | None) -> Identity:
        """Its shadow took its place, and looks so now. ValueError when it lacks
        columns."""
        there = now.columns.keys() if now else frozenset[str]()
        if gone := _words(sorted(self.columns.keys() - there)):
            raise ValueError(
                Sentence("what took its place lacks %(columns)s", columns=gone)
            )
        guards = tuple(n for n in self.guards if now and n in now.uniques)
        if self.guards and not guards:
            raise ValueError(
                Sentence("what took its place lacks what kept its key unique")
            )
        return replace(self, shadow=None, replaced=other, guards=guards)

    def _explained(self, touches: Collection[str], *, is_strict: bool) -> Identity:
        """Which statement made a column NOT NULL decides what became of its NULLs."""
        found = {*self.tightened} & {*touches}
        if found and not is_strict:
            raise ValueError(
                Sentence(
                    "%(columns)s is NOT NULL now, by a session that lets the server"
                    " change NULLs, which may have changed values",
                    columns=_words(sorted(found)),
                )
            )
        return replace(self, tightened=tuple(sorted({*self.tightened} - found)))

    def with_unexplained(self, names: Iterable[str]) -> Identity:
        """Columns that rows have and that no statement of the log brought."""
        new = {name: SourceColumn("") for name in names if name not in self.columns}
        if not new:
            return self
        columns, untold = {**self.columns, **new}, (*self.untold, *new)
        return replace(self, columns=columns, untold=untold)

    def problem_of(self, table: TableSpec) -> str:
        """Why rows of before lack values of columns that the plan has now; "" = they
        do not."""
        again = {*self.gone} & self.columns.keys()
        known = {**dict.fromkeys((*self.untold, *again)), **self.older}
        wrong = _words(
            column.source_name
            for column in table.columns
            if column.source_name in known
            and (
                column.source_name in self.untold
                or column.source_name in again
                or known[column.source_name] != column.older
            )
        )
        if not wrong:
            return ""
        return Sentence(
            "%(table)s: what %(columns)s gave to rows that"
            " were there as it was added is not known any more; resync the table",
            table=table.at_source,
            columns=wrong,
        )


def read_as(
    table: TableSpec, described: TableMap, now: FoundTable | None
) -> tuple[ColumnSpec, ...]:
    """The columns that rows have: the plan's, by the types that they have there; and
    those of which it decides later, where a discovery sees them, too. now: by the
    catalog, None = it is not there any more."""
    there = {column.name: column for column in described.columns}
    planned = tuple(
        replace(column, type=carried(column, there[column.source_name]))
        for column in table.columns
        if column.source_name in there
    )
    known = {column.source_name for column in table.columns} | {*table.left_out}
    new = (
        undecided(name, one.type, lake_type(one.type).type, kind="mariadb")
        for name, one in (now.columns if now else {}).items()
        if name in there.keys() - known - (now.hidden if now else frozenset())
    )
    return planned + tuple(one for one in new if _is_read(there[one.source_name], one))


def new_columns(
    table: TableSpec, types: Mapping[str, str], read: Collection[str]
) -> tuple[str, ...]:
    """That the source has, and the plan lacks or has in a narrower type, in their order
    there. types: in the lake; "" = not known. read: see `columns_read`."""
    known = {column.source_name: column.type for column in table.columns}
    return tuple(
        name
        for name, type in types.items()
        if name in read
        and (name not in known or (type and widens_in_place(known[name], type)))
    )


def columns_read(table: TableSpec, identity: str | None) -> Collection[str]:
    """Columns that the log has brought. A look may be ahead of it: what one gave to
    rows of before is not known until the statement is read that adds it."""
    planned = {column.source_name for column in table.columns}
    return planned | Identity.decode(identity).columns.keys() if identity else planned


def gone_columns(table: TableSpec, there: Collection[str]) -> tuple[str, ...]:
    """Of the plan, that the source has no more."""
    names = (column.source_name for column in table.columns)
    return tuple(name for name in names if name not in there)


def types_in(table: TableSpec, described: TableMap) -> dict[str, str]:
    """For `new_columns`, as the log has them."""
    planned = {column.source_name: column for column in table.columns}
    return {
        one.name: carried(planned[one.name], one) if one.name in planned else ""
        for one in described.columns
    }


def types_of(found: FoundTable) -> dict[str, str]:
    """For `new_columns`, as the catalog has them."""
    return {name: lake_type(one.type).type for name, one in found.columns.items()}


def carried(column: ColumnSpec, found: LogColumn) -> str:
    """The lake type of its values: a type that is wider than the plan's is taken as it
    is, and the plan follows."""
    type = ""
    if found.type in _INTEGERS:
        type = "bigint" if found.type == kinds.LONG and found.is_unsigned else "int"
    elif found.type == kinds.LONGLONG:
        type = "decimal(20,0)" if found.is_unsigned else "bigint"
    elif found.type == kinds.DECIMAL and found.length <= _MOST_DIGITS:
        type = f"decimal({found.length},{found.scale})"
    return type if type and widens_in_place(column.type, type) else column.type


def _is_read(found: LogColumn, column: ColumnSpec) -> bool:
    if not column.type:
        return False
    try:
        codec_of(found, column)
    except ValueError:
        return False
    return True


def _keeps(old: SourceColumn, new: SourceColumn) -> bool:
    """Whether every value is what it was, but for NULLs."""
    if not old.type:
        return True  # nothing is known of it, and nothing relied on
    if old.made != new.made or (
        old.charset != new.charset and new.charset != "utf8mb4"
    ):
        return False
    return keeps_values(old.type, new.type) or _grows(old.type, new.type)


def _grows(old: str, new: str) -> bool:
    """A decimal by digits before the point, beside what `keeps_values` knows."""
    signs = {"unsigned" in type or "zerofill" in type for type in (old, new)}
    types = lake_type(old).type, lake_type(new).type
    return len(signs) == 1 and all(types) and widens_in_place(*types)


def _described(column: SourceColumn) -> str:
    words = (column.type, column.charset, "" if column.is_nullable else "NOT NULL")
    return " ".join(word for word in (*words, column.made) if word)


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
