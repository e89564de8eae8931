"""Whether the log says all that a wanted table needs, and what is new in it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec

from catalog.schema.source_log import parts_in_words
from catalog.schema.widening import widens_in_place
from catalog.sources.postgresql.privileges import full_rows_of_parts_logged
from catalog.sources.postgresql.types import SourceType, lake_type
from core.sentences import Sentence
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.ahead import is_as_wide, undecided
from ingest.sources.dialects import dialect_of
from ingest.sources.fingerprint import forms_altered, in_words
from ingest.sources.postgresql.log.parts import Part, Parts

_DIALECT = dialect_of("postgresql")
REWRITTEN = Sentence("a partition was truncated or rewritten")
EMPTIED_WITHIN = Sentence(
    "a partition was created or truncated, written to, and truncated or altered by one"
    " transaction, or its rows were changed soon after,"
)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """is_key: old rows say it (it is in the replica identity). may_read: the login may
    SELECT it, so that a discovery shows it."""

    name: str
    type: SourceType
    is_key: bool
    may_read: bool = True


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it is now, or as the log describes it.

    identity   as in `pgoutput.Relation`
    columns    that the log carries
    generated  that are there, and that the log does not carry
    """

    identity: str
    columns: tuple[SourceColumn, ...]
    generated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Altered:
    """A column's type and modifier as in pg_attribute, and the transaction that altered
    it last. is_unwritten: rows of before it was added have its DEFAULT of then from the
    catalog, which ends as rows are written anew: none was since."""

    type: int
    modifier: int
    xid: int
    is_unwritten: int = 0

    def is_other_type(self, then: Altered | None) -> bool:
        return then is None or (then.type, then.modifier) != (self.type, self.modifier)


@dataclass(frozen=True, slots=True)
class Unique:
    """An index that lets no two rows have the same values. constraint: that it is of.
    is_immediate: at no moment, else at the end of a statement or transaction.
    is_rebuilt: it is in another file than it was made in."""

    number: int
    name: str
    constraint: int | None
    is_immediate: bool
    is_rebuilt: bool
    columns: frozenset[str]

    def keeps(self, table: TableSpec) -> bool:
        return self.columns <= {*table.key}


@dataclass(frozen=True, slots=True)
class Identity:
    """Which table it is, whatever stands under its name. columns: numbers of those that
    are planned. members: by which its changes come, see `Publications`. file: that it
    is in, which is another one once all of its rows were written anew. since: its rows
    of transactions before this one were in that file. met: as it was met, all before
    this one were over. highest: the number of a column that was there then. altered: of
    planned columns.
    uniques: that keep its key unique at every moment. forms: how values of its columns
    read, see `ServerFingerprint`."""

    oid: int
    columns: Mapping[str, int]
    members: tuple[tuple[str, str], ...] = ()
    file: int = 0
    since: int = 0
    met: int = 0
    highest: int = 0
    parts: Parts = field(default_factory=Parts)
    altered: Mapping[str, Altered] = field(default_factory=dict)
    uniques: tuple[Unique, ...] = ()
    forms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: TableSpec,
        oid: int,
        numbers: Mapping[str, int],
        altered: Mapping[str, Altered] = MappingProxyType({}),
        uniques: Iterable[Unique] = (),
    ) -> Identity:
        names = (column.source_name for column in table.columns)
        columns = {name: numbers[name] for name in names if name in numbers}
        planned = {name: one for name, one in altered.items() if name in columns}
        guards = tuple(one for one in uniques if one.is_immediate and one.keeps(table))
        return cls(oid, columns, altered=planned, uniques=guards)

    @classmethod
    def decode(cls, text: str) -> Identity:
        return msgspec.json.decode(text, type=cls)

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    def problem_of(self, table: TableSpec, now: Identity) -> str:
        """What makes it another one now, which its log does not show; "" = nothing."""
        if now.oid != self.oid:
            return Sentence(
                "%(table)s was dropped and made again at the source, which its log"
                " does not show; resync the table",
                table=table.at_source,
            )
        if why := self._problem_of_columns(table, now):
            return why
        if self.uniques and not self._is_kept_unique(table, now):
            return Sentence(
                "%(table)s: what kept its key %(key)s unique (%(names)s) was"
                " dropped or created again at the source, and two rows may have"
                " had one key; resync the table",
                table=table.at_source,
                key=_words(table.key),
                names=_words(one.name for one in self.uniques),
            )
        altered = forms_altered(self.forms, now.forms)
        if altered := {n: one for n, one in altered.items() if n in now.columns}:
            return Sentence(
                "%(table)s: values of %(values)s read otherwise since an ALTER TYPE at"
                " the source, and its log does not show that; resync the table",
                table=table.at_source,
                values=in_words(altered),
            )
        if self.members and now.members and not {*self.members} & {*now.members}:
            return unsent_for_a_while(table)
        if why := self.parts.problem_of(now.parts.all):
            return changed_parts(table, why)
        return ""

    def _problem_of_columns(self, table: TableSpec, now: Identity) -> str:
        if anew := _words(
            name
            for name, number in now.columns.items()
            if self.columns.get(name, number) != number
        ):
            return Sentence(
                "%(table)s: %(names)s was dropped at the source and added again,"
                " and its log does not show what it has there; resync the table",
                table=table.at_source,
                names=anew,
            )
        unwritten = {name for name, one in now.altered.items() if one.is_unwritten}
        added = _words(sorted(now.columns.keys() - self.columns.keys() - unwritten))
        if self.file != now.file and added:
            return Sentence(
                "%(table)s: %(added)s was added at the source, and every row was"
                " rewritten, so it may have values that the log does not show;"
                " resync the table",
                table=table.at_source,
                added=added,
            )
        if self.file != now.file and (anew := _words(self._rewritten(now))):
            return Sentence(
                "%(table)s: %(names)s was altered at the source, and every row was"
                " rewritten (ALTER … TYPE … USING), so it may have values that the"
                " log does not show; resync the table",
                table=table.at_source,
                names=anew,
            )
        return ""

    @property
    def is_listed(self) -> bool:
        """In a publication by itself, as which PostgreSQL lets it not be UNLOGGED."""
        return any(number.startswith("r") for _, number in self.members)

    def joined(self, later: Identity) -> Identity:
        """With what the log had of it until later."""
        return replace(self, parts=self.parts.joined(later.parts))

    def renewed(self, now: Identity, *, has_more: bool) -> Identity:
        """With what the plan has by now. has_more: it will get more that is there."""
        columns = {**now.columns, **self.columns}
        # it is in one of them still, so it was in these all the time
        members = now.members or self.members
        parts = self.parts.renewed(now.parts.all)
        found = replace(now, columns=columns, members=members, parts=parts)
        found = replace(found, met=self.met, highest=self.highest)
        if has_more:
            altered = {**now.altered, **self.altered}
            found = replace(found, file=self.file, altered=altered)
        return replace(found, since=self.since) if found.file == self.file else found

    def may_be_unlogged(self, now: Identity, made: int) -> bool:
        """Whether it may have been UNLOGGED for a while: it is in another file, for no
        other reason that is known by now. made: see `FoundTable`."""
        if self.file == now.file or now.is_listed or made in self.parts.emptied:
            return False
        return not any(
            one.xid == made and one.is_other_type(self.altered.get(name))
            for name, one in now.altered.items()
        )

    def _rewritten(self, now: Identity) -> list[str]:
        """Columns that were altered in another way than PostgreSQL itself writes rows
        anew for, with the same values."""
        found = []
        for name, then in self.altered.items():
            one = now.altered.get(name, then)
            if one.xid != then.xid and not _keeps_values(then, one):
                found.append(name)
        return found

    def _is_kept_unique(self, table: TableSpec, now: Identity) -> bool:
        """By one that is there still; of which another type of the key's column makes
        another one of the same name, and builds it once more."""
        there = {one.number for one in now.uniques}
        there |= {one.constraint for one in now.uniques if one.constraint}
        if any({one.number, one.constraint} & there for one in self.uniques):
            return True
        names = {one.name for one in now.uniques if one.is_rebuilt}
        is_typed = any(
            one.is_other_type(self.altered.get(name))
            for name, one in now.altered.items()
            if name in table.key
        )
        return is_typed and any(one.name in names for one in self.uniques)


# Whole numbers, by their size; then numbers that have what those before them have.
_WHOLE, _FLOATS, _NUMERIC = (21, 23, 20), (700, 701), 1700


def _keeps_values(then: Altered, now: Altered) -> bool:
    """Whether rows are written anew for that change of type, with the values that they
    have. By the numbers of types that never change."""
    if then.type == now.type == _NUMERIC:
        scales = [(one.modifier - 4) & 0x7FF for one in (then, now)]
        return now.modifier < 0 or (then.modifier >= 0 and scales[0] < scales[1])
    if then.type == now.type:
        return False
    if then.type in _WHOLE:
        return now.type in {*_WHOLE, _NUMERIC}
    return (then.type, now.type) == _FLOATS


def problem_of_key(table: TableSpec, uniques: Iterable[Unique]) -> str:
    """Where two rows may have the same key for a moment, a delete may come for the row
    that has it by then."""
    guards = [one for one in uniques if one.keeps(table)]
    if not guards or any(one.is_immediate for one in guards):
        return ""
    return Sentence(
        "the key %(key)s of %(table)s is DEFERRABLE (%(names)s), so two rows may"
        " have the same one for a moment, and its log does not say which of them"
        " is deleted; at the source: make it NOT DEFERRABLE, then resync the table",
        key=_words(table.key),
        table=table.at_source,
        names=_words(one.name for one in guards),
    )


def is_shuffled(
    names: Sequence[str], numbers: Mapping[str, int], dropped: Iterable[int]
) -> bool:
    """Whether the log describes columns in another order than they have, or more before
    one of them than there can have been: under names that they do not have any more.
    dropped: numbers of those that may have been there."""
    found = [numbers[name] for name in names if name in numbers]
    there = {*numbers.values(), *dropped}
    return found != sorted(found) or any(
        sum(one < numbers[name] for one in there) < before
        for before, name in enumerate(names)
        if name in numbers
    )


def swapped_names(table: TableSpec) -> str:
    return Sentence(
        "columns of %(table)s had each other's names for a while at the source, and"
        " values came under those; resync the table",
        table=table.at_source,
    )


def passed_over(table: TableSpec, other: str) -> str:
    """other: the name that it had while its changes came."""
    return Sentence(
        "%(table)s was renamed to %(other)s at the source, or attached to it, and"
        " changes that came under that name were passed over; resync the table",
        table=table.at_source,
        other=other,
    )


def gone(table: TableSpec, *, now: str) -> str:
    """now: as it is called by now, "" = it was dropped, or was never there."""
    if now:
        return Sentence(
            "%(table)s is called %(now)s at the source now; give it its name back and"
            " resync it, or remove the table and add %(now)s",
            table=table.at_source,
            now=now,
        )
    return Sentence(
        "there is no table %(table)s at the source any more; discover it again, and"
        " remove the table or resync it",
        table=table.at_source,
    )


def changed_parts(table: TableSpec, why: str) -> str:
    return Sentence(
        "%(table)s: %(why)s at the source, and its log does not show which rows"
        " came or went by that; resync the table",
        table=table.at_source,
        why=why,
    )


def unlogged_for_a_while(table: TableSpec) -> str:
    return Sentence(
        "every row of %(table)s was rewritten at the source, as by SET UNLOGGED"
        " and SET LOGGED, and what changed in between is not in its log; resync"
        " the table",
        table=table.at_source,
    )


def unseen_for_long(table: TableSpec, why: str) -> str:
    return Sentence(
        "partitions of %(table)s were changed at the source, and could not be"
        " checked for long (%(why)s), so whether its log shows all of that is not"
        " known; resync the table",
        table=table.at_source,
        why=why,
    )


def unsent_for_a_while(table: TableSpec) -> str:
    return Sentence(
        "%(table)s was taken out of its publication for a while, or that was"
        " altered, and what changed in that time was not sent; resync the table",
        table=table.at_source,
    )


def problem_of(
    table: TableSpec, source: SourceTable, *, later: Collection[str] = ()
) -> str:
    """Why its changes cannot be followed, and what to do about it; "" = they can.
    later: columns that it may have got behind this description of it."""
    return (
        _problem_of_identity(table, source)
        or _problem_of_columns(table, source, later)
        or _problem_of_types(table, source)
    )


def problem_of_parts(table: TableSpec, lesser: Sequence[str]) -> str:
    """The same of its partitions. lesser: see `TableLog.lesser_parts`."""
    if not lesser:
        return ""
    remedy = full_rows_of_parts_logged(table.source_schema, table.source_table)
    return Sentence(
        "the replica identity of %(table)s has columns that %(parts)s"
        " does not have, so its log has NULL where there were values; at the"
        " source: %(remedy)s then resync the table",
        table=table.at_source,
        parts=parts_in_words(lesser),
        remedy=remedy,
    )


def problem_of_unlogged_parts(table: TableSpec, parts: Mapping[str, Part]) -> str:
    if all(part.came != "unlogged" for part in parts.values()):
        return ""
    return Sentence(
        "a partition of %(table)s is UNLOGGED or a foreign table, so its rows are not"
        " in the source's log; at the source: SET LOGGED or detach it, then resync the"
        " table; or sync the table by loads",
        table=table.at_source,
    )


def problem_of_former_rows(table: TableSpec) -> str:
    """Of which the log has less than the table's replica identity says."""
    remedy = full_rows_of_parts_logged(table.source_schema, table.source_table)
    return Sentence(
        "a partition of %(table)s had another replica identity than the table as"
        " rows of it were changed, so its log has NULL where there were values; at"
        " the source: %(remedy)s then resync the table",
        table=table.at_source,
        remedy=remedy,
    )


def new_columns(table: TableSpec, source: SourceTable) -> tuple[str, ...]:
    """That the source has, and the plan lacks or has in a narrower type, in their order
    there."""
    known = {column.source_name: column.type for column in table.columns}
    return tuple(
        one.name
        for one in source.columns
        if one.name not in known
        or widens_in_place(known[one.name], lake_type(one.type).type)
    )


def read_as(
    table: TableSpec, described: SourceTable, now: SourceTable | None
) -> tuple[ColumnSpec, ...]:
    """The columns that rows have: the plan's, by the types that they have there; and
    those of which it decides later, where a discovery will see the same.

    described  by the log; now: by the catalog, None = it is not there any more
    """
    types = {column.name: column.type for column in described.columns}
    planned = tuple(
        replace(
            column,
            source_type=types[column.source_name].text,
            type=_carried(column, types[column.source_name]),
        )
        for column in table.columns
        if column.source_name in types
    )
    known = {column.source_name for column in table.columns} | {*table.left_out}
    there = {column.name: column for column in now.columns} if now else {}
    return planned + tuple(
        _undecided(there[column.name])
        for column in described.columns
        if column.name not in known
        and column.name in there
        and there[column.name].type.text == column.type.text
        and there[column.name].may_read
        and lake_type(there[column.name].type).type
    )


def _carried(column: ColumnSpec, source: SourceType) -> str:
    """A type that is wider or narrower than the plan's is taken as it is: the plan
    follows, or it went ahead."""
    if column.source_type == source.text:
        return column.type
    found = lake_type(source).type
    return found if found and is_as_wide(column.type, found) else column.type


def _undecided(column: SourceColumn) -> ColumnSpec:
    text, type = column.type.text, lake_type(column.type).type
    return undecided(column.name, text, type, kind="postgresql")


def _problem_of_identity(table: TableSpec, source: SourceTable) -> str:
    name = table.at_source
    if table.row_hash or not table.key:
        return Sentence(
            "%(table)s has no key, so its log does not say which row was changed or"
            " deleted; choose a key for it, or sync it by a timestamp or by loads",
            table=name,
        )
    is_key = {column.name for column in source.columns if column.is_key}
    remedy = Sentence(
        "at the source: ALTER TABLE %(table)s REPLICA IDENTITY FULL, then resync"
        " the table",
        table=_DIALECT.qualified(table.source_schema, table.source_table),
    )
    if source.identity == "n":
        return Sentence(
            "%(table)s has REPLICA IDENTITY NOTHING, so its log does not say which"
            " row was changed or deleted; %(remedy)s",
            table=name,
            remedy=remedy,
        )
    if not is_key:
        return Sentence(
            "%(table)s has no primary key and no other replica identity, so"
            " PostgreSQL would refuse updates and deletes once it is published;"
            " %(remedy)s",
            table=name,
            remedy=remedy,
        )
    if outside := _words(name for name in table.key if name not in is_key):
        return Sentence(
            "the replica identity of %(table)s does not have %(outside)s of its"
            " key, so its log does not say which row was changed or deleted;"
            " %(remedy)s",
            table=name,
            outside=outside,
            remedy=remedy,
        )
    if outside := _words(name for name in table.partition_by if name not in is_key):
        return Sentence(
            "%(table)s is partitioned in the lake by %(outside)s, which its replica"
            " identity does not have, so its log does not say where a deleted row"
            " is; %(remedy)s",
            table=name,
            outside=outside,
            remedy=remedy,
        )
    return ""


def _problem_of_columns(
    table: TableSpec, source: SourceTable, later: Collection[str]
) -> str:
    there = {column.name for column in source.columns} | {*later}
    missing = [c.source_name for c in table.columns if c.source_name not in there]
    if not missing:
        return ""
    if made := _words(name for name in missing if name in source.generated):
        return Sentence(
            "%(table)s: the log lacks what PostgreSQL generates (%(made)s); leave"
            " that out of the table's plan, or sync the table by a timestamp or by"
            " loads",
            table=table.at_source,
            made=made,
        )
    return Sentence(
        "%(table)s has no column %(missing)s any more, or its publication leaves"
        " it out; discover the source again and resync the table",
        table=table.at_source,
        missing=_words(missing),
    )


def _problem_of_types(table: TableSpec, source: SourceTable) -> str:
    types = {column.name: column.type for column in source.columns}
    for column in table.columns:
        found = types.get(column.source_name)
        if found is None or column.source_type == found.text:
            continue
        wanted = lake_type(found).type
        if wanted and is_as_wide(column.type, wanted):
            continue
        return Sentence(
            "%(table)s: the type of %(column)s was %(before)s and is"
            " %(now)s now, which is not %(type)s in the lake; discover the source"
            " again and resync the table",
            table=table.at_source,
            column=column.source_name,
            before=column.source_type,
            now=found.text,
            type=column.type,
        )
    return ""


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
