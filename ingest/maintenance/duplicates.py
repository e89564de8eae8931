"""What rows that occur twice in a lake table say: how many, where, and why. Pure.

It must not know how they were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.sentences import Sentence, joined

_JAVA_INT = 1 << 32


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Counted over the whole table.

    rows, keys      rows readers see, and different keys among them
    within, across  keys with several rows in one partition; in several partitions
    conflicts       buckets with several file groups
    """

    rows: int
    keys: int
    within: int = 0
    across: int = 0
    conflicts: int = 0

    @property
    def surplus(self) -> int:
        return self.rows - self.keys

    @property
    def is_clean(self) -> bool:
        return not self.surplus and not self.conflicts


@dataclass(frozen=True, slots=True)
class Signs:
    """What points to a cause.

    buckets    the table's number of buckets; highest: the highest one seen
    misplaced  copies among the examples that lie in a bucket that is not their key's
    loads      loads on the timeline that added file groups instead of replacing them
    """

    buckets: int
    highest: int = -1
    misplaced: int = 0
    loads: int = 0


def likely_cause(found: Duplicates, signs: Signs) -> str:
    """One sentence; "" when there is nothing to explain."""
    if found.is_clean:
        return ""
    if signs.highest >= signs.buckets or signs.misplaced:
        if signs.highest < 0:
            return Sentence(
                "a writer used another number of buckets than %(buckets)s (rows lie in"
                " buckets that are not their keys')",
                buckets=signs.buckets,
            )
        return Sentence(
            "a writer used another number of buckets than %(buckets)s (rows lie in"
            " buckets that are not their keys', bucket %(highest)s among them)",
            buckets=signs.buckets,
            highest=signs.highest,
        )
    if found.conflicts and signs.loads > 1:
        return Sentence(
            "the table was loaded %(loads)s times without replacing what was there",
            loads=signs.loads,
        )
    if found.conflicts:
        return Sentence(
            "tasks of a write ran twice (speculation, or a retry after a lost executor)"
            " and each left its file group"
        )
    if found.across and not found.within:
        return Sentence(
            "rows changed their partition at the source; the old copies stayed"
        )
    return Sentence("a writer outside Sluice added rows under keys that were there")


def words_for(found: Duplicates, cause: str) -> str:
    if found.is_clean:
        return Sentence(
            "No duplicates: %(rows)s rows, each key once.", rows=f"{found.rows:,}"
        )
    counts = (
        (found.surplus, "%(count)s of %(rows)s rows are copies"),
        (found.within, "%(count)s keys occur more than once in a partition"),
        (found.across, "%(count)s keys in several partitions"),
        (found.conflicts, "%(count)s buckets have several file groups"),
    )
    said = joined(
        Sentence(text, count=f"{count:,}", rows=f"{found.rows:,}")
        for count, text in counts
        if count
    )
    if not cause:
        return Sentence("%(what)s.", what=said)
    return Sentence("%(what)s. Likely cause: %(cause)s.", what=said, cause=cause)


def facts_of(
    found: Duplicates, cause: str, *, examples: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The facts of a job's report. `keys` are values of rows: not for all users."""
    return {
        "summary": words_for(found, cause),
        "rows": found.rows,
        "distinct_keys": found.keys,
        "surplus": found.surplus,
        "within_partition": found.within,
        "across_partitions": found.across,
        "bucket_conflicts": found.conflicts,
        "cause": cause,
        "keys": {"duplicated": list(examples)},
    }


def bucket_for(values: Iterable[str], buckets: int) -> int:
    """The bucket Hudi puts a key into: Java's hash of the list of its values."""
    total = 1
    for value in values:
        total = (31 * total + _java_hash(value)) % _JAVA_INT
    return (total & 0x7FFFFFFF) % buckets


def _java_hash(text: str) -> int:
    found = 0
    for unit in _utf16(text):
        found = (31 * found + unit) % _JAVA_INT
    return found


def _utf16(text: str) -> Iterable[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
