"""Whether a table can be followed by its source's log, what that lacks, and what is
seen then. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from catalog.schema.source_log import Lack, parts_in_words
from catalog.schema.types import Column
from catalog.sources.kinds import Privileges
from catalog.sources.registry import kind_named
from ingest.planning.facts import ROW_HASH, TableFacts
from ingest.planning.plan import Proposal

_TABLES = frozenset({"table", "partitioned table"})
# What a connection test says of the server's settings.
_DOUBTS = (
    "a resync is needed once a session of the source logs a statement in place of rows,"
    " and where a power failure took the end of its log; with"
    " innodb_flush_log_at_trx_commit other than 1, once the server dies"
)
_ELSE = "use capture 'timestamp' or 'snapshot'"


def why_not_followed(
    facts: TableFacts, carried: list[Column], proposals: dict[str, Proposal]
) -> str:
    """In sentences with the statements that help; "" = it can be."""
    table = _Wanted(facts, carried, proposals)
    lacks = [*facts.log_lacks, *table.lacks()]
    return ". ".join(_told(lack) for lack in lacks)


def what_is_seen(source_kind: str) -> tuple[str, ...]:
    """In sentences for people."""
    seen = (
        "inserts, updates, deletes, keys that change and TRUNCATE are seen, in the"
        " order of their commits, within seconds"
    )
    return (seen, _DOUBTS) if source_kind == "mariadb" else (seen,)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A table as it would be followed."""

    facts: TableFacts
    carried: list[Column]
    proposals: dict[str, Proposal]

    def lacks(self) -> Iterator[Lack]:
        yield from self._of_choices()
        if odd := self._odd_kind():
            yield Lack(odd)
            return
        yield from self._of_identity()
        yield from self._of_columns()
        log, where = self.facts.log, (self.facts.database, self.facts.name)
        if log is not None and not (log.is_published or log.may_publish):
            yield Lack(
                f"no publication at the source has all changes of"
                f" {self.facts.source_name}, and its user may not make one of a table"
                " that is not its own",
                self._statements.logged(*where),
            )

    def _of_choices(self) -> Iterator[Lack]:
        if self.proposals["updates"].value == "partial":
            yield Lack(
                "the log has whole rows and deletes, which partial updates do not take:"
                " leave 'updates' out, or use capture 'timestamp'"
            )
        if self.proposals["record_key"].value == ROW_HASH:
            yield Lack(
                "a whole-row hash key cannot follow updates: every changed row would"
                " stay in its old form too. Choose columns as 'record_key', or use"
                " capture 'snapshot'"
            )

    def _odd_kind(self) -> str:
        name, traits = self.facts.source_name, self.facts.traits
        if self.facts.relation not in _TABLES:
            return (
                f"{name} is a {self.facts.relation}, of which the log says nothing:"
                f" follow the tables that it is made of, or {_ELSE}"
            )
        if self.facts.log is not None and self.facts.log.unfit:
            return f"{name}: {self.facts.log.unfit}, or {_ELSE}"
        if "versioned" in traits:
            return f"{name} keeps former versions of its rows in itself: {_ELSE}"
        if "unlogged" in traits:
            return (
                f"{name} is UNLOGGED, so its changes are in no log: {_ELSE}, or run"
                f" ALTER TABLE … SET LOGGED at the source and discover again"
            )
        if "children" in traits:
            return (
                f"{name} has child tables by inheritance, whose rows the log has under"
                f" their own names: follow the child tables, or {_ELSE}"
            )
        if "foreign" in traits:
            return f"rows of {name} are at another server, and not in this log: {_ELSE}"
        return ""

    def _of_identity(self) -> Iterator[Lack]:
        log, key = self.facts.log, self.proposals["record_key"].value
        if log is not None and log.lesser_parts:
            yield self._of_parts(log.lesser_parts)
        if log is None or log.is_full or not key or key == ROW_HASH:
            return
        name = self.facts.source_name
        statement = self._statements.full_rows_logged(
            self.facts.database, self.facts.name
        )
        if not log.identity:
            reason = (
                "has no replica identity, which names a row that was changed or deleted"
            )
            yield Lack(f"{name} {reason}", statement)
        elif outside := _words(n for n in key if n not in log.identity):
            reason = f"its key is {_words(key)}, of which the log does not have"
            yield Lack(f"{name}: {reason} {outside} of former rows", statement)
        elif outside := _words(
            n for n in self.proposals["partition_by"].value if n not in log.identity
        ):
            yield Lack(
                f"{name} is partitioned by {outside}, which the log does not have of"
                " former rows: a row that is deleted there, or moves, would stay",
                statement,
            )

    def _of_parts(self, lesser: tuple[str, ...]) -> Lack:
        where = self.facts.database, self.facts.name
        return Lack(
            f"the log has less of former rows of {parts_in_words(lesser)} than the"
            f" replica identity of {self.facts.source_name} says",
            self._statements.full_rows_of_parts_logged(*where),
        )

    def _of_columns(self) -> Iterator[Lack]:
        made = self.facts.log.left_out if self.facts.log else ()
        carried = {column.source_name for column in self.carried}
        if lost := _words(name for name in made if name in carried):
            yield Lack(
                "the log does not contain what the source generates: leave"
                f" {lost} out by 'exclude_columns', or {_ELSE}"
            )

    @property
    def _statements(self) -> Privileges:
        return kind_named(self.facts.source_kind).privileges


def _told(lack: Lack) -> str:
    return f"{lack.reason}: {lack.statement}" if lack.statement else lack.reason


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
