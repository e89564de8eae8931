"""Which publications a stream is read by: our own, into which wanted tables are put, or
those that somebody made who may.

A slot reads the catalog as it was: a publication that was made after what it has to
read yet is unknown there, and the server would stop at that. So one is used as soon as
the slot has passed its making.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from core.errors import InvalidRequest, TerminalError, TransientError
from core.sentences import Sentence, as_sentence
from ingest.contract.following import is_name_at_source
from ingest.contract.table import TableSpec
from ingest.sources.port import LogNames
from ingest.sources.postgresql.connection import DIALECT
from ingest.sources.postgresql.log.control import Control, Name
from ingest.sources.postgresql.log.slot import ANEW
from ingest.sources.postgresql.log.tables import unsent_for_a_while

_PUBLICATIONS = """
SELECT p.pubname::text, pg_has_role(p.pubowner, 'USAGE'),
  s.slot_name IS NULL OR age(p.xmin) < 0 OR age(p.xmin) > age(s.catalog_xmin)
    OR obj_description(p.oid, 'pg_publication') = %s
FROM pg_publication p LEFT JOIN pg_replication_slots s ON s.slot_name = %s
"""
# A slot keeps what any slot of the server keeps already, so it may seem older than it
# is. Ours has a note that it was there first; one that is made anew has none.
_FIRST = "slot {} begins behind it"
# What was altered of the publication itself, as which changes it has, and altered back
# shows in its row's xmin only. A table is in it by itself, by what it is a part of, by
# the schema of one of these, or as all are. Row filters came with PostgreSQL 15.
# What pg_publication_tables shows, which waits for whoever locks one of the tables.
# is_above: as part of another one, under whose name it comes with pubviaroot.
# left: columns that a list of it leaves out, which came with PostgreSQL 15, too.
_PUBLISHED = """
SELECT f.schema, f.name, f.pubname, f.member, f.left
FROM (
  SELECT n.nspname::text AS schema, c.relname::text AS name, p.pubname::text,
    m.kind || m.oid || '/' || p.xmin AS member, c.relkind, p.pubviaroot,
    ARRAY(SELECT a.attname::text FROM pg_publication_rel r JOIN pg_attribute a
      ON a.attrelid = r.prrelid AND a.attnum > 0 AND NOT a.attisdropped
      WHERE r.prpubid = p.oid AND r.prrelid = c.oid
      AND jsonb_typeof(to_jsonb(r) -> 'prattrs') = 'array'
      AND NOT to_jsonb(r) -> 'prattrs' @> to_jsonb(a.attnum)) AS left,
    bool_or(m.is_above) OVER (PARTITION BY c.oid, p.oid) AS is_above
  FROM unnest(%s::name[], %s::name[]) w(schema, name)
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
  CROSS JOIN pg_publication p
  JOIN LATERAL (
    SELECT 'p', p.oid::text, c.relispartition WHERE p.puballtables
    UNION ALL SELECT 'r', r.oid::text, r.prrelid <> c.oid FROM pg_publication_rel r
    WHERE r.prpubid = p.oid AND (
      r.prrelid = c.oid OR r.prrelid IN (SELECT pg_partition_ancestors(c.oid)))
    {schemas}
  ) m(kind, oid, is_above) ON true
  WHERE p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
    AND c.relpersistence = 'p' AND NOT EXISTS (
      SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid
      AND to_jsonb(r) ->> 'prqual' IS NOT NULL)
) f
WHERE CASE WHEN f.pubviaroot THEN NOT f.is_above ELSE f.relkind <> 'p' END
"""
# Since PostgreSQL 15. A table that left the schema and came back has another row for
# its type since.
_SCHEMAS = """UNION ALL SELECT 's', s.oid || '-' || y.xmin, a.oid <> c.oid
  FROM pg_publication_namespace s
  JOIN pg_class a ON a.relnamespace = s.pnnspid JOIN pg_type y ON y.oid = a.reltype
  WHERE s.pnpubid = p.oid AND (
    a.oid = c.oid OR a.oid IN (SELECT pg_partition_ancestors(c.oid)))"""
# Of a publication that does not have all of a table's changes: whether it has each
# kind of them, says those of partitions of their table, and has it by itself.
_MEMBER = """
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
  p.pubviaroot OR c.relkind IS DISTINCT FROM 'p', r.oid IS NOT NULL
FROM pg_publication p
LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)
  ON n.nspname = %s AND c.relname = %s
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
WHERE p.pubname = %s
"""
_MEMBERS = """
SELECT n.nspname::text, c.relname::text
FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %s
"""
# What is written into a partition is said of the table that is divided into them.
_KINDS = "insert, update, delete, truncate"
_MAKE = (
    f"CREATE PUBLICATION {{}} WITH (publish = '{_KINDS}',"
    " publish_via_partition_root = true)"
)
# The source's own log gets a line each time that it refuses us.
_REFUSED_SECONDS = 300
# Somebody works on the table: for one of those a look waits, not for each.
BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)


# Its name, and what is new when the table left it and came back.
Member = tuple[str, str]
# A statement's verb, and the table's schema and name.
_Change = tuple[str, str, str]


def once_published(
    problems: Mapping[int, str], unpublished: Mapping[int, str], *, of: Collection[int]
) -> dict[int, str]:
    """Of these tables what happened to them, where a publication has to be mended
    before that can be."""
    return {
        table_id: Sentence(
            "%(problem)s, once this is mended: %(unpublished)s",
            problem=as_sentence(problems[table_id]),
            unpublished=as_sentence(unpublished[table_id]),
        )
        for table_id in of
        if table_id in problems and table_id in unpublished
    }


@dataclass(slots=True)
class Publications:
    """in_use: those by which the log is read; while it is not read yet more may be
    `chosen`."""

    control: Control
    names: LogNames
    chosen: list[str] = field(default_factory=list)
    in_use: tuple[str, ...] = ()
    # Of others, and as it seems behind what has to be read yet. Where there is nothing
    # else that is tried: the slot seems older than it is, or the server says so.
    _late: list[str] = field(default_factory=list)
    _usable: dict[str, bool] = field(default_factory=dict)
    _refused: dict[int, tuple[float, str]] = field(default_factory=dict)
    # by which publications a table's changes came
    _members: dict[int, frozenset[Member]] = field(default_factory=dict)
    _is_ours: bool = False
    _added: dict[int, str] = field(default_factory=dict)
    # what could not be altered at this look, and at the one before, and when it was
    # waited for; and that for which this one waits
    _busy: dict[_Change, float] = field(default_factory=dict)
    _tried: dict[_Change, float] = field(default_factory=dict)
    _turn: _Change | None = None

    def use(self, problems: Mapping[int, str], *, tries: bool) -> None:
        """From here on the log is read by those that were chosen; by our own, empty one
        where no table is followed. Errors when there is none: problems of tables say
        why. tries: one of which it is not known, too."""
        own = self.names.publication
        if not tries:
            self._late.clear()
        if not self.chosen and not self._late and own not in self._usable:
            self._make(next(iter(problems.values()), ""))
        if not self.chosen and not self._usable.get(own) and self._late:
            self.chosen.append(self._late[0])
        if not self.chosen and not self._usable[own]:
            raise TerminalError(
                "the publication %(own)s was made after changes that are not read"
                " yet, and the server cannot read those by it",
                own=own,
                code="publication_missing",
                hint=ANEW,
            )
        self.in_use = tuple(self.chosen) or (own,)

    def _make(self, problem: str) -> None:
        own = DIALECT.name(self.names.publication)
        try:
            self.control.run(_MAKE.format(own))
        except psycopg.errors.InsufficientPrivilege as error:
            why = str(error).partition("\n")[0]
            raise InvalidRequest(
                problem
                or Sentence(
                    "the source does not let us make a publication: %(why)s", why=why
                ),
                code="publication_missing",
                hint=Sentence(
                    "at the source, by a user who may: CREATE PUBLICATION %(own)s FOR"
                    " TABLE … (the tables to follow)",
                    own=own,
                ),
            ) from error
        self._look()

    def note_first(self) -> None:
        """The slot was made behind our own publication."""
        own = self.names.publication
        if own in self._usable and self._is_ours:
            note = DIALECT.literal(_FIRST.format(self.names.slot))
            publication = DIALECT.name(own)
            self.control.run(f"COMMENT ON PUBLICATION {publication} IS {note}")

    def require(self) -> None:
        """TransientError `publication_missing` when one by which the log is read is
        not there any more."""
        self._look()
        if gone := [name for name in self.in_use if name not in self._usable]:
            raise TransientError(
                "the publication %(gone)s, by which the log is read, is gone from"
                " the source, so changes do not come",
                gone=", ".join(gone),
                code="publication_missing",
                hint=ANEW,
            )

    def cover(self, tables: Sequence[TableSpec]) -> dict[int, str]:
        """Takes all others out of our own one. Why the changes of tables do not come,
        of those whose do not."""
        self._look()
        self._next_turn()
        self._keep_only(tables)
        published = self._published(tables)
        problems = {}
        for table in tables:
            by = published.get((table.source_schema, table.source_table), frozenset())
            why = self._problem(table, frozenset(name for name, _ in by))
            if why or (why := self._gap(table, by)):
                problems[table.table_id] = why
        self._note_added(tables)
        return problems

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left to try, or to tell."""
        return not (self._refused or self._busy or self._late or self._added)

    def by_which(self, table: TableSpec) -> tuple[Member, ...]:
        """Its changes come, since it was last covered."""
        return tuple(sorted(self._members.get(table.table_id, ())))

    def forget(self, table_id: int) -> None:
        """What came of the table before does not matter, nor what was refused."""
        self._members.pop(table_id, None)
        self._refused.pop(table_id, None)

    def _gap(self, table: TableSpec, by: frozenset[Member]) -> str:
        read = frozenset(one for one in by if one[0] in self.in_use)
        before = self._members.get(table.table_id, frozenset())
        if before and read and not before & read:
            return unsent_for_a_while(table)
        if read:
            self._members[table.table_id] = read
        return ""

    def _note_added(self, tables: Sequence[TableSpec]) -> None:
        new = [one for one in tables if one.table_id in self._added]
        published = self._published(new) if new and self.in_use else {}
        for table in new:
            by = published.get((table.source_schema, table.source_table), frozenset())
            self._gap(table, by)

    def added(self) -> dict[int, str]:
        """Tables that were put into our own one since this was last called, with what
        that means for those that were followed before."""
        found, self._added = self._added, {}
        return found

    def _next_turn(self) -> None:
        """The log is not read while a look waits, so it waits for one lock: each time
        for the one that was waited for longest ago."""
        self._tried, self._busy = self._busy, {}
        self._turn = min(self._tried, key=lambda one: self._tried[one], default=None)

    def _keep_only(self, tables: Sequence[TableSpec]) -> None:
        """A published table without a replica identity would not even be written to any
        more."""
        if not self._is_ours:
            return
        kept = {(table.source_schema, table.source_table) for table in tables}
        members = self.control.rows(_MEMBERS, [self.names.publication])
        for schema, name in sorted(set(members) - kept):
            # at the next look then: others must not wait for it
            with contextlib.suppress(psycopg.ProgrammingError, *BUSY):
                self._alter("DROP", schema, name)

    def _problem(self, table: TableSpec, by: frozenset[str]) -> str:
        own = self.names.publication
        lasting = frozenset(name for name in by if not self._may_go(name))
        why = "" if lasting else self._add(table)
        by = (lasting or by) if lasting or why else frozenset({own})
        if by & {*self.in_use, *self.chosen}:
            return ""
        if table.table_id in self._added and self.in_use:
            # by the next look the stream has it
            return self._added[table.table_id]
        if not by:
            return Sentence(
                "no publication at the source has all changes of %(table)s, and"
                " %(own)s does not get it: %(why)s; at the source, by a user who"
                " may: %(statement)s",
                table=table.at_source,
                own=own,
                why=why,
                statement=self._statement(table),
            )
        if usable := [
            name for name in sorted(by, key=self._rank) if self._usable[name]
        ]:
            return self._choose(usable[0])
        self._late.extend(sorted(by))
        return Sentence(
            "%(table)s is in the publication %(publication)s, which was made lately: it"
            " is followed as soon as everything before that is read",
            table=table.at_source,
            publication=min(by),
        )

    def _may_go(self, name: str) -> bool:
        """Another stream's: its table is taken out, or all of it dropped, as nobody
        wants that one any more."""
        return name != self.names.publication and is_name_at_source(name)

    def _statement(self, table: TableSpec) -> str:
        """By which our own one gets all of a table's changes."""
        own = DIALECT.name(self.names.publication)
        target = DIALECT.qualified(table.source_schema, table.source_table)
        if self.names.publication not in self._usable:
            return f"CREATE PUBLICATION {own} FOR TABLE {target}"
        name = [table.source_schema, table.source_table, self.names.publication]
        for has_all, is_whole, is_member in self.control.rows(_MEMBER, name):
            if not has_all:
                return f"ALTER PUBLICATION {own} SET (publish = '{_KINDS}')"
            if not is_whole:
                return (
                    f"ALTER PUBLICATION {own} SET (publish_via_partition_root = true)"
                )
            if is_member:
                # of some rows or columns
                drop = f"ALTER PUBLICATION {own} DROP TABLE {target}; "
                return f"{drop}ALTER PUBLICATION {own} ADD TABLE {target}"
        return f"ALTER PUBLICATION {own} ADD TABLE {target}"

    def _rank(self, name: str) -> tuple[bool, str]:
        return name != self.names.publication, name

    def _choose(self, name: str) -> str:
        if self.in_use:
            raise TransientError(
                "the log is read by the publication %(name)s, too, from now on",
                name=name,
                code="publication_found",
                hint="reading begins again at once",
            )
        self.chosen.append(name)
        return ""

    def _add(self, table: TableSpec) -> str:
        """Into our own one, which is made when it is not there; why that failed."""
        own = self.names.publication
        since, why = self._refused.get(table.table_id, (float("-inf"), ""))
        if time.monotonic() - since < _REFUSED_SECONDS:
            return why
        try:
            if own not in self._usable:
                self.control.run(_MAKE.format(DIALECT.name(own)))
                self._look()
            self._alter("ADD", table.source_schema, table.source_table)
        except psycopg.errors.DuplicateObject:
            why = Sentence(
                "it is in it, but the publication does not have all of its changes"
            )
        except psycopg.ProgrammingError as error:
            why = str(error).partition("\n")[0]
        except BUSY as error:
            return str(error).partition("\n")[0]
        else:
            self._added[table.table_id] = Sentence(
                "%(table)s was not in the publication %(own)s for a while, so its"
                " changes are missing in what was read of the log; resync the"
                " table",
                table=table.at_source,
                own=own,
            )
            return ""
        self._refused[table.table_id] = time.monotonic(), why
        return why

    def _alter(self, verb: str, schema: str, name: str) -> None:
        own = DIALECT.name(self.names.publication)
        only = "ONLY " if verb == "ADD" else ""
        table = DIALECT.qualified(schema, name)
        is_turn = (change := (verb, schema, name)) == self._turn
        try:
            with contextlib.nullcontext() if is_turn else self.control.unwaiting():
                self.control.run(f"ALTER PUBLICATION {own} {verb} TABLE {only}{table}")
        except BUSY:
            waited = time.monotonic() if is_turn else self._tried.get(change, 0.0)
            self._busy[change] = waited
            raise

    def _look(self) -> None:
        slot = self.names.slot
        found = self.control.rows(_PUBLICATIONS, [_FIRST.format(slot), slot])
        self._usable = {name: bool(is_usable) for name, _, is_usable in found}
        ours = {name for name, is_ours, _ in found if is_ours}
        self._is_ours = self.names.publication in ours

    def _published(self, tables: Sequence[TableSpec]) -> dict[Name, frozenset[Member]]:
        schemas = [table.source_schema for table in tables]
        names = [table.source_table for table in tables]
        found: dict[Name, frozenset[Member]] = {}
        has_schemas = self.control.connection.info.server_version >= 150_000
        sql = _PUBLISHED.replace("{schemas}", _SCHEMAS if has_schemas else "")
        planned = {
            (one.source_schema, one.source_table): {c.source_name for c in one.columns}
            for one in tables
        }
        rows = self.control.rows(sql, [schemas, names])
        for schema, name, publication, number, left in rows:
            if publication not in self._usable:
                continue  # made since they were listed: the next look has it
            key = schema, name
            if planned[key] & {*left}:
                continue
            found[key] = found.get(key, frozenset()) | {(publication, number)}
        return found
