"""Whether a table can be followed by its source's log, what that lacks, and what is
seen then. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from catalog.schema.source_log import Lack, parts_in_words
from catalog.schema.types import Column
from catalog.sources.kinds import Privileges
from catalog.sources.registry import kind_named
from core.sentences import (
    NEXT,
    THEN,
    Sentence,
    as_sentence,
    filled,
    joined,
    replaced_in,
)
from ingest.planning.facts import ROW_HASH, TableFacts
from ingest.planning.plan import Proposal, TablePlan

_TABLES = frozenset({"table", "partitioned table"})
# What a connection test says of the server's settings.
_DOUBTS = (
    "a resync is needed once a session of the source logs a statement in place of rows,"
    " and where a power failure took the end of its log; with"
    " innodb_flush_log_at_trx_commit other than 1, once the server dies"
)
_ELSE = Sentence("use capture 'timestamp' or 'snapshot'")
_NO_PARTS_BY_LOG = (
    "the log has whole rows and deletes, which partial updates do not take: leave"
    " 'updates' out, or use capture 'timestamp'"
)
# Of shards, which no timestamp follows.
_NO_PARTS = (
    "the log has whole rows and deletes, which partial updates do not take: leave"
    " 'updates' out"
)
_ELSE_ONCE = Sentence("use capture 'snapshot'")


def why_not_followed(
    facts: TableFacts,
    carried: list[Column],
    proposals: dict[str, Proposal],
    *,
    is_sharded: bool = False,
) -> str:
    """In sentences with the statements that help; "" = it can be."""
    table = _Wanted(facts, carried, proposals, is_sharded)
    told = [_told(lack) for lack in (*facts.log_lacks, *table.lacks())]
    if any(lack.statement for lack in facts.log_lacks):
        # discovery noted it, and has to look again
        told.append("then discover the source again")
    found = ""
    for one in told:
        # a statement has its own end
        found = joined((found, one), THEN if found.endswith(";") else NEXT)
    return found


def published_at_once(
    plans: Sequence[TablePlan], facts: Sequence[Sequence[TableFacts]]
) -> list[TablePlan]:
    """Plans of one request, where one publication does for all tables that need one:
    its statement is in the first of these plans, the others name that. facts: of the
    tables of each plan."""
    unpublished = [[one for one in tables if _is_unpublished(one)] for tables in facts]
    lacking = [
        tables if any(_publication([one]) in _texts(plan) for one in tables) else []
        for plan, tables in zip(plans, unpublished, strict=True)
    ]
    every = [one for tables in lacking for one in tables]
    if len(every) < 2:
        return list(plans)
    told = _publication(every)
    found = []
    for plan, tables in zip(plans, lacking, strict=True):
        for one in tables:
            plan = _with_other_text(plan, _publication([one]), told)
        if tables:
            told = Sentence(
                "the statement shown for %(first)s names this table, too;",
                first=every[0].source_name,
            )
        found.append(plan)
    return found


def _texts(plan: TablePlan) -> str:
    return f"{plan.blocked}\n{plan.proposals['capture'].reason}"


def _with_other_text(plan: TablePlan, old: str, new: str) -> TablePlan:
    capture = plan.proposals["capture"]
    told = replace(capture, reason=replaced_in(capture.reason, old, new))
    return replace(
        plan,
        blocked=replaced_in(plan.blocked, old, new),
        proposals={**plan.proposals, "capture": told},
    )


def _is_unpublished(facts: TableFacts) -> bool:
    log = facts.log
    return log is not None and not (log.is_published or log.may_publish)


def _publication(tables: Sequence[TableFacts]) -> str:
    privileges = kind_named(tables[0].source_kind).privileges
    return privileges.logged([(one.database, one.name) for one in tables])


def what_is_seen(source_kind: str) -> tuple[str, ...]:
    """In sentences for people."""
    seen = (
        "inserts, updates, deletes, keys that change and TRUNCATE are seen, in the"
        " order of their commits, within seconds"
    )
    return (seen, _DOUBTS) if source_kind == "mariadb" else (seen,)


# Of tables with such traits, why the log has no use.
_ODD = {
    "versioned": "%(name)s keeps former versions of its rows in itself: %(else)s",
    "unlogged": "%(name)s or a partition of it is UNLOGGED, so its changes are in no"
    " log: %(else)s,"
    " or run ALTER TABLE … SET LOGGED at the source and discover"
    " again",
    "children": "%(name)s has child tables by inheritance, whose rows the log"
    " has under their own names: follow the child tables, or %(else)s",
    "foreign": "rows of %(name)s are at another server, and not in this log: %(else)s",
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A table as it would be followed."""

    facts: TableFacts
    carried: list[Column]
    proposals: dict[str, Proposal]
    is_sharded: bool

    def lacks(self) -> Iterator[Lack]:
        yield from self._of_choices()
        if odd := self._odd_kind():
            yield Lack(odd)
            return
        yield from self._of_identity()
        yield from self._of_columns()
        if _is_unpublished(self.facts):
            yield _lack(
                "no publication at the source has all changes of"
                " %(source_name)s, and its user may not make one of a table"
                " that is not its own",
                _publication([self.facts]),
                source_name=self.facts.source_name,
            )

    def _of_choices(self) -> Iterator[Lack]:
        if self.proposals["updates"].value == "partial":
            yield Lack(_NO_PARTS if self.is_sharded else _NO_PARTS_BY_LOG)
        if self.proposals["record_key"].value == ROW_HASH:
            yield Lack(
                "a whole-row hash key cannot follow updates: every changed row would"
                " stay in its old form too. Choose columns as 'record_key', or use"
                " capture 'snapshot'"
            )

    def _odd_kind(self) -> str:
        name, traits = self.facts.source_name, self.facts.traits
        if self.facts.relation not in _TABLES:
            return Sentence(
                "%(name)s is a %(relation)s, of which the log says nothing:"
                " follow the tables that it is made of, or %(else)s",
                name=name,
                relation=self.facts.relation,
                **self._or,
            )
        if self.facts.log is not None and self.facts.log.unfit:
            return Sentence(
                "%(name)s: %(unfit)s, or %(else)s",
                name=name,
                unfit=as_sentence(self.facts.log.unfit),
                **self._or,
            )
        for trait, why in _ODD.items():
            if trait in traits:
                return Sentence(why, name=name, **self._or)
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
            yield _lack(
                "%(name)s has no replica identity, which names a row that was"
                " changed or deleted",
                statement,
                name=name,
            )
        elif outside := _words(n for n in key if n not in log.identity):
            yield _lack(
                "%(name)s: its key is %(key)s, of which the log does not have"
                " %(outside)s of former rows",
                statement,
                name=name,
                key=_words(key),
                outside=outside,
            )
        elif outside := _words(
            n for n in self.proposals["partition_by"].value if n not in log.identity
        ):
            yield _lack(
                "%(name)s is partitioned by %(outside)s, which the log does"
                " not have of former rows: a row that is deleted there, or"
                " moves, would stay",
                statement,
                name=name,
                outside=outside,
            )

    def _of_parts(self, lesser: tuple[str, ...]) -> Lack:
        where = self.facts.database, self.facts.name
        return _lack(
            "the log has less of former rows of %(lesser)s than the"
            " replica identity of %(source_name)s says",
            self._statements.full_rows_of_parts_logged(*where),
            lesser=parts_in_words(lesser),
            source_name=self.facts.source_name,
        )

    def _of_columns(self) -> Iterator[Lack]:
        made = self.facts.log.left_out if self.facts.log else ()
        carried = {column.source_name for column in self.carried}
        if lost := _words(name for name in made if name in carried):
            yield Lack(
                Sentence(
                    "the log does not contain what the source generates: leave"
                    " %(lost)s out by 'exclude_columns', or %(else)s",
                    lost=lost,
                    **self._or,
                )
            )

        unread = self.facts.log.unread if self.facts.log else ()
        if lost := _words(name for name in unread if name in carried):
            yield Lack(
                Sentence(
                    "texts of %(lost)s are in a character set that is not read from the"
                    " log: give it utf8mb4 at the source, leave it out by"
                    " 'exclude_columns', or %(else)s",
                    lost=lost,
                    **self._or,
                )
            )

    @property
    def _or(self) -> dict[str, Sentence]:
        return {"else": _ELSE_ONCE if self.is_sharded else _ELSE}

    @property
    def _statements(self) -> Privileges:
        return kind_named(self.facts.source_kind).privileges


def _lack(message: str, statement: str, **named: object) -> Lack:
    return Lack(filled(message, named), statement)


def _told(lack: Lack) -> str:
    if not lack.statement:
        return lack.reason
    reason = as_sentence(lack.reason)
    return Sentence("%(what)s: %(text)s", what=reason, text=lack.statement)


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
