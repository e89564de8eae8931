"""Which column tells changed rows, with reasons, and what it cannot tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.schema.types import Column
from catalog.sources.registry import cannot_hold
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.planning.capture_limits import TABLES, TRAPS
from ingest.planning.facts import LOG, Choices, Conditions, TableFacts
from ingest.planning.plan import Proposal

CURSOR_TYPES = frozenset({"timestamp", "timestamp_ntz"})

_UPDATED = (
    "updated_at", "updated", "update_time", "updated_time", "updated_on",
    "modified_at", "modified", "modified_time", "modified_on", "last_modified",
    "last_update", "last_updated", "last_updated_at", "changed_at", "mtime",
    "gmt_modified", "date_modified", "modifieddate",
)  # fmt: skip
_CREATED = ("creat", "insert", "birth", "start", "begin", "ordered", "regist")


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    score: int
    reason: str


def rank_cursors(facts: TableFacts, carried: list[Column]) -> list[Candidate]:
    """Columns that could be a cursor, best first; those with no hope are left out."""
    found = [_judge(facts, c) for c in carried if c.type in CURSOR_TYPES]
    return sorted((c for c in found if c.score > 0), key=lambda c: (-c.score, c.name))


def _judge(facts: TableFacts, column: Column) -> Candidate:
    name = column.source_name.lower()
    score, why = _score_name(name)
    if not column.nullable:
        score, why = score + 2, [*why, "never NULL"]
    else:
        why = [*why, "may be NULL"]
    if column.source_name in facts.indexed:
        score, why = score + 2, [*why, "indexed"]
    else:
        why = [*why, "not indexed: every sync reads the whole table"]
    if column.type == "timestamp":
        score, why = score + 1, [*why, "with time zone"]
    return Candidate(column.source_name, score, ", ".join(why))


def _score_name(name: str) -> tuple[int, list[str]]:
    if name in _UPDATED:
        return 10 + len(_UPDATED) - _UPDATED.index(name), ["named like a change time"]
    if any(word in name for word in ("updat", "modif", "chang")):
        return 8, ["named like a change time"]
    if any(word in name for word in _CREATED):
        return -20, ["named like a creation time: updates would be missed"]
    return -10, ["its name does not say that updates set it"]


def propose_cursor(
    facts: TableFacts,
    choices: Choices,
    carried: list[Column],
    conditions: Conditions,
) -> Proposal:
    """The cursor; value None when none is needed or none can be proposed."""
    if conditions.capture == LOG:
        return Proposal(None, "not needed: the log tells which rows changed")
    if conditions.capture != "timestamp":
        return Proposal(None, "not needed: the table is loaded once")
    ranked = rank_cursors(facts, carried)
    if choices.cursor is not None:
        return _chosen(facts, choices.cursor, carried)
    if not ranked:
        times = [c.source_name for c in carried if c.type in CURSOR_TYPES]
        if others := _named_so_without_time(carried):
            return Proposal(
                None,
                Sentence(
                    "a cursor must be a timestamp, and %(others)s of"
                    " %(source_name)s is none; choose another column that every"
                    " insert and update sets ('cursor'), or load the table once"
                    " (capture 'snapshot')",
                    others=", ".join(others),
                    source_name=facts.source_name,
                ),
                choices=tuple(times),
            )
        return Proposal(
            None,
            Sentence(
                "no column of %(source_name)s is named like a change time;"
                " choose a column that every insert and update sets ('cursor'),"
                " or load the table once (capture 'snapshot')",
                source_name=facts.source_name,
            ),
            choices=tuple(times),
        )
    return Proposal(
        ranked[0].name,
        ranked[0].reason,
        choices=tuple(c.name for c in ranked[1:]),
    )


def _named_so_without_time(carried: list[Column]) -> list[str]:
    """Named like a change time, and of another type: a date, or a number."""
    return [
        f"'{c.source_name}' ({c.source_type})"
        for c in carried
        if c.type not in CURSOR_TYPES and _score_name(c.source_name.lower())[0] > 0
    ]


def _chosen(facts: TableFacts, name: str, carried: list[Column]) -> Proposal:
    column = next(c for c in carried if c.source_name == name)
    if column.type not in CURSOR_TYPES:
        raise InvalidRequest(
            "'%(name)s' of %(source_name)s is %(source_type)s: a cursor"
            " must be a timestamp",
            name=name,
            source_name=facts.source_name,
            source_type=column.source_type,
            code="invalid_cursor",
            facts={"field": "cursor", "table": facts.source_name},
        )
    return Proposal(name, f"chosen ({_judge(facts, column).reason})", is_chosen=True)


def what_is_missed(
    facts: TableFacts, cursor: str, conditions: Conditions
) -> tuple[str, ...]:
    """What capture by this cursor cannot see, in sentences for people."""
    missed = [
        *(TRAPS[name].unseen for name in ("deletes", "keys_changed", "emptied")),
        Sentence(
            "updates that do not set '%(cursor)s' to the current time are not seen",
            cursor=cursor,
        ),
    ]
    if facts.relation == "partitioned table":
        missed.append(TABLES[facts.relation].unseen)
    missed += _never_read(facts, cursor)
    if facts.sees_all_transactions is False:
        missed.append(
            Sentence(
                "transactions open longer than %(lag_seconds)s s can be"
                " missed: the login lacks the right to see when they began"
                " (PostgreSQL: pg_read_all_stats, MariaDB and MySQL: PROCESS)",
                lag_seconds=f"{conditions.lag_seconds:g}",
            )
        )
    return tuple(missed)


def what_is_late(facts: TableFacts, cursor: str) -> tuple[str, ...]:
    """Of a cursor that says a wall clock's time: whose, no row says."""
    if facts.schema.column(cursor).type == "timestamp" or not facts.zone_delay:
        return ()
    return (
        Sentence(
            "'%(cursor)s' has no time zone and the server is not on UTC: rows arrive up"
            " to %(hours)s h later",
            cursor=cursor,
            hours=f"{facts.zone_delay / 3600:g}",
        ),
    )


def _never_read(facts: TableFacts, cursor: str) -> list[str]:
    column = facts.schema.column(cursor)
    odd = cannot_hold(column.source_type, column.type, kind=facts.source_kind)
    if not (column.nullable or odd):
        return []
    found = Sentence("no moment (%(odd)s)", odd=odd) if odd else "NULL"
    if odd and column.nullable:
        found = Sentence("NULL or %(other)s", other=found)
    return [
        Sentence(
            "rows whose '%(cursor)s' is %(found)s are counted, not synced",
            cursor=cursor,
            found=found,
        )
    ]
