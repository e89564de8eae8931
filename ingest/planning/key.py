"""What identifies a row: the primary key, else a unique index, else ask. Pure."""

from __future__ import annotations

from catalog.schema.types import Column
from core.errors import InvalidRequest
from core.sentences import Sentence, as_sentence
from ingest.planning.facts import ROW_HASH, Capture, Choices, TableFacts
from ingest.planning.plan import Proposal


def propose_key(
    facts: TableFacts,
    choices: Choices,
    carried: list[Column],
    *,
    capture: Capture = "snapshot",
) -> Proposal:
    """The record key; value None with the question as reason when people must say: a
    hash of the row is offered where it is accepted, which following updates is not."""
    if choices.record_key is not None:
        return _chosen(facts, choices, carried)
    usable = {c.source_name: c for c in carried if c.is_supported}
    primary = facts.schema.primary_key
    unique = _unique_not_null(facts, usable)
    if primary and all(name in usable for name in primary):
        return Proposal(
            list(primary),
            "the primary key of the source table",
            choices=tuple(list(index) for index in unique),
        )
    if unique:
        return Proposal(
            list(unique[0]),
            "no usable primary key; this is the narrowest unique index whose "
            "columns are all NOT NULL",
            choices=tuple(list(index) for index in unique[1:]),
        )
    if facts.hidden_key or facts.hides_indexes:
        return Proposal(None, _why_no_key(facts), choices=_unkeyed(capture))
    is_followed = capture != "snapshot"
    with_hash = (
        "load it once (capture 'snapshot') with a hash of each row as its key"
        " ('row_hash')"
        if is_followed
        else "a hash of each row as its key ('row_hash')"
    )
    return Proposal(
        None,
        Sentence(
            "%(source_name)s has no primary key and no unique index over"
            " NOT NULL columns: choose columns that identify a row"
            " ('record_key'), or %(with_hash)s; equal rows become one with a"
            " count of them",
            source_name=facts.source_name,
            with_hash=as_sentence(with_hash),
        ),
        choices=_unkeyed(capture),
    )


def _why_no_key(facts: TableFacts) -> str:
    if facts.hides_indexes:
        return Sentence(
            "the source shows the login no keys of %(source_name)s, to"
            " which it has rights by column only: run %(structure_grant)s,"
            " which shows them, and discover again, or choose columns that"
            " identify a row ('record_key')",
            source_name=facts.source_name,
            structure_grant=facts.structure_grant,
        )
    lacking = [name for name in facts.hidden_key if name in facts.hidden]
    return Sentence(
        "the primary key of %(source_name)s is (%(key)s), and the login may not SELECT"
        " %(lacking)s: run %(grant)s at the source and discover again, or choose"
        " columns that identify a row ('record_key')",
        source_name=facts.source_name,
        key=", ".join(facts.hidden_key),
        lacking=", ".join(lacking),
        grant=facts.grant_of(lacking),
    )


def _unkeyed(capture: Capture) -> tuple[str, ...]:
    """What people may choose where nothing identifies a row."""
    return (ROW_HASH,) if capture == "snapshot" else ()


def _chosen(facts: TableFacts, choices: Choices, carried: list[Column]) -> Proposal:
    if choices.record_key == ROW_HASH:
        return Proposal(
            ROW_HASH,
            "chosen: a hash of the whole row, with a duplicate count for equal rows",
            is_chosen=True,
        )
    names = list(choices.record_key or ())
    if not names or len(set(names)) != len(names):
        raise InvalidRequest(
            "the record key of %(source_name)s must name columns, each once",
            source_name=facts.source_name,
            code="invalid_record_key",
            facts={"field": "record_key", "table": facts.source_name},
        )
    nullable = [c.source_name for c in carried if c.source_name in names and c.nullable]
    if nullable:
        return Proposal(
            names,
            Sentence(
                "chosen; NULL is allowed in %(nullable)s: a row with NULL"
                " there stops the load",
                nullable=", ".join(nullable),
            ),
            is_chosen=True,
        )
    return Proposal(names, "chosen", is_chosen=True)


def _unique_not_null(
    facts: TableFacts, usable: dict[str, Column]
) -> list[tuple[str, ...]]:
    primary = set(facts.schema.primary_key)
    found = [
        index
        for index in facts.unique_indexes
        if index
        and set(index) != primary
        and all(name in usable and not usable[name].nullable for name in index)
    ]
    return sorted(found, key=lambda index: (len(index), index))
