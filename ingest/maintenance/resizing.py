"""What another number of buckets would do to a table, shown before it is asked for.

From the facts of its files; starts no Spark. It must not know how it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.maintenance.buckets import MOST_BUCKETS, expected_bytes, suggest_buckets
from ingest.maintenance.descriptions import counted, sized
from ingest.maintenance.facts import LakeFacts
from ingest.maintenance.repair_descriptions import plans_first


@dataclass(frozen=True, slots=True)
class Shape:
    """file_bytes: of a base file on average."""

    buckets: int
    file_groups: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Resize:
    """bytes: what is read and written once. reason: why that number, or another."""

    before: Shape
    after: Shape
    bytes: int
    reason: str


def plan_resize(name: str, facts: LakeFacts, buckets: int) -> Resize:
    """InvalidRequest for a number that no table can have, or this one has, and for a
    table that has to be repaired first."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise InvalidRequest(
            "%(table)s cannot have %(buckets)s buckets",
            most=MOST_BUCKETS,
            table=name,
            buckets=buckets,
            code="invalid_request",
            hint="give 1 to %(most)s",
        )
    if buckets == facts.buckets:
        raise InvalidRequest(
            "%(table)s has %(buckets)s already",
            table=name,
            buckets=counted(buckets, "bucket"),
            code="nothing_to_do",
            hint="its health suggests a number, where another is better",
        )
    if facts.conflicts_total:
        raise InvalidRequest(
            "%(table)s has buckets with several file groups: its rows would come"
            " into one file twice",
            table=name,
            code="has_duplicates",
            hint="deduplicate it first",
        )
    average = facts.base_bytes // facts.base_files if facts.base_files else 0
    return Resize(
        Shape(facts.buckets, facts.groups, average),
        Shape(
            buckets,
            buckets * max(1, facts.partitions),
            expected_bytes(facts, buckets),
        ),
        facts.base_bytes + facts.log_bytes,
        _reason(facts, buckets),
    )


def words_for(found: Resize, facts: LakeFacts) -> Iterator[str]:
    before, after = found.before, found.after
    yield Sentence(
        "Every row is read and written once, %(size)s as files are now; no sync runs "
        "until it ends",
        size=sized(found.bytes),
    )
    yield from plans_first(facts)
    yield Sentence(
        "A savepoint keeps what is there now; the old files stay until it ends"
    )
    yield Sentence(
        "One commit puts the rows into %(buckets)s instead of %(former_buckets)s: at "
        "most %(groups)s instead of %(former_groups)s, base files of about %(size)s "
        "instead of %(former_size)s",
        buckets=counted(after.buckets, "bucket"),
        former_buckets=before.buckets,
        groups=counted(after.file_groups, "file group"),
        former_groups=before.file_groups,
        size=sized(after.file_bytes),
        former_size=sized(before.file_bytes),
    )
    yield Sentence(
        "Readers see the same rows before and after, which is compared; capture "
        "goes on at its position, and writers with the old number are refused"
    )
    yield found.reason


def _reason(facts: LakeFacts, buckets: int) -> str:
    fit = suggest_buckets(facts)
    if fit is None:
        return Sentence(
            "Nothing suggests another number: its files have a good size as they are"
        )
    if fit.buckets == buckets:
        return Sentence("Suggested, because: %(reason)s", reason=fit.reason)
    return Sentence(
        ("%(count)s bucket would be suggested: %(reason)s")
        if fit.buckets == 1
        else ("%(count)s buckets would be suggested: %(reason)s"),
        count=fit.buckets,
        reason=fit.reason,
    )
