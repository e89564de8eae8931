"""All that one principal may do, and whether other rights would allow more. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from catalog.access.table_rights import NOTHING, WHOLE, TableRights
from catalog.names import join_name, split_name

READ_BYTES = 100  # of a name in `ReadTables`, beside its characters


@dataclass(frozen=True, slots=True)
class ReadTables:
    """What a statement reads, by rights of which policy version: columns by table, both
    as `PrincipalPolicy.tables` spells them. is_whole: there is nothing more."""

    version: int
    tables: Mapping[str, frozenset[str]]
    is_whole: bool = True

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        columns = (name for on in self.tables.values() for name in on)
        return sum(READ_BYTES + len(name) for name in (*self.tables, *columns))

    def unknown(self) -> ReadTables:
        """The same without what it reads, for which there is no room."""
        return ReadTables(self.version, {}, is_whole=False)


@dataclass(frozen=True, slots=True)
class PrincipalPolicy:
    """One principal's rights, at least as new as `version`, the global policy version.

    `select` and `discover` are lake patterns: `*`, `db.*` or `db.table`; a part with a
    dot is quoted, so that none is spelled like another, nor like one of a source.
    `sources` and `sources_seen` name live sources, databases and tables of them that
    may be read, or seen. `tables`: what limits the principal on a table, by `db.table`,
    or `datasource.db.table`.
    """

    principal: str
    version: int
    is_active: bool
    is_admin: bool
    select: tuple[str, ...] = ()
    discover: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    sources_seen: tuple[str, ...] = ()
    tables: Mapping[str, TableRights] = field(default_factory=dict)

    def reads_whole(self, read: ReadTables | None) -> bool:
        """Whether nothing that a statement reads is kept back from the principal: else
        how much it reads says how much there is."""
        if not self.tables:
            return True
        if read is None or not read.is_whole:
            return False
        return self.tables.keys().isdisjoint(read.tables)

    def covers(self, other: PrincipalPolicy, read: ReadTables | None = None) -> bool:
        """True when `other` allows to read nothing more than this; of a statement with
        rights of `other`, nothing more of what it reads, if that is known."""
        if not self.is_active:
            return False
        if read and read.is_whole:
            return all(self._covers_read(other, table, read) for table in read.tables)
        if other.is_admin and not self.is_admin:
            return False
        is_wide_enough = self.is_admin or (
            all(_matches(self.select, pattern) for pattern in other.select)
            and all(_is_of_source(self.sources, name) for name in other.sources)
        )
        return is_wide_enough and all(
            self._on(name).covers(other._on(name))
            for name in {*self.tables, *other.tables}
            if other._reads(name)
        )

    def _covers_read(
        self, other: PrincipalPolicy, table: str, read: ReadTables
    ) -> bool:
        # the engine had newer rights than `other`, which may have been wider
        is_known = read.version <= other.version
        mine, theirs = self._on(table), other._on(table) if is_known else WHOLE
        seen = replace(theirs, columns=read.tables[table])
        return mine != NOTHING and ((is_known and mine == theirs) or mine.covers(seen))

    def _reads(self, table: str) -> bool:
        """Whether any of the table's columns may be read."""
        return self._reads_all(table) or self._on(table).columns is not None

    def _reads_all(self, table: str) -> bool:
        if len(split_name(table)) > 2:
            return self.is_admin or _is_of_source(self.sources, table)
        return self.is_admin or _matches(self.select, table)

    def _on(self, table: str) -> TableRights:
        found = self.tables.get(table)
        if found is None:
            return WHOLE if self._reads_all(table) else NOTHING
        if found.columns is None and not self._reads_all(table):
            return NOTHING
        return found


def _matches(patterns: Collection[str], name: str) -> bool:
    """Whether a table, or all that a pattern stands for, is among them."""
    return bool({"*", name, join_name(split_name(name)[0], "*")} & set(patterns))


def _is_of_source(granted: Collection[str], name: str) -> bool:
    """Whether a name of a source, or of what is in it, is below one of them."""
    return any(name == each or name.startswith(f"{each}.") for each in granted)
