"""What counts say about a lake table and its source: equal or not, in words.

Also which buckets of hashes have to be looked into, and keys as people know them.
Pure: it must not know how anything was counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.sentences import AND, THEN, Sentence, joined

Verdict = Literal["equal", "different"]

KINDS_OF_DIFFERENCE = ("missing", "extra", "different")
KEYS_LISTED = 100
_WORD = 1 << 64
_COUNTED = {
    "row": (Sentence("1 row"), Sentence("%(count)s rows")),
    "key": (Sentence("1 key"), Sentence("%(count)s keys")),
    "newer change": (Sentence("1 newer change"), Sentence("%(count)s newer changes")),
}


@dataclass(frozen=True, slots=True)
class Sums:
    """Rows, and the sum of their 64-bit hashes modulo 2^64."""

    rows: int
    hash: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Sums:
        """From aggregates named like the fields; of no rows they are None."""
        return cls(int(row["rows"] or 0), int(row["hash"] or 0) % _WORD)

    @classmethod
    def total(cls, parts: Iterable[Sums]) -> Sums:
        found = list(parts)
        whole = sum(p.hash for p in found) % _WORD
        return cls(sum(p.rows for p in found), whole)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of a table, counted.

    missing    rows of the source that the lake lacks
    extra      rows of the lake that the source lacks
    different  keys on both sides whose rows are not the same
    pending    keys that differ only because their rows at the source are newer
               than the table's position: the next sync brings them. Of a table that
               follows a log: keys that changed while they were compared
    ahead      rows of the source with a cursor ahead of its clock: what the lake lacks
               of them counts as different, for no sync brings it before that time
    kept       of a table with partial updates: keys that differ only where the
               source has NULL and the lake a value, as is meant
    """

    source_rows: int
    lake_rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    pending: int = 0
    kept: int = 0
    ahead: int = 0

    @property
    def verdict(self) -> Verdict:
        is_equal = not (self.missing or self.extra or self.different)
        return "equal" if is_equal else "different"


def words_for(found: Comparison, *, position: str, is_log: bool = False) -> str:
    """One or more sentences; `position` "" = the table follows no cursor."""
    if is_log:
        return _of_log(found)
    changes = _count(found.pending, "newer change")
    if found.verdict == "equal" and found.pending:
        said = Sentence(
            "Equal up to %(position)s: %(changes)s at the source will come with the"
            " next sync.",
            position=position,
            changes=changes,
        )
        return joined((said, *_rest(found)), THEN)
    if found.verdict == "equal":
        rows = _count(found.source_rows, "row")
        said = Sentence("Equal: %(rows)s on both sides.", rows=rows)
        return joined((said, *_rest(found)), THEN)
    parts = [_different(found)]
    if found.pending:
        parts.append(Sentence("%(changes)s not counted: pending.", changes=changes))
    if not position:
        parts.append(
            Sentence(
                "The table follows no cursor, so changes since its load count too."
            )
        )
    elif found.extra:
        parts.append(
            Sentence(
                "Timestamp capture does not see deletes: rows deleted at the source"
                " stay in the lake until a repair."
            )
        )
    return joined((*parts, *_rest(found)), THEN)


def _of_log(found: Comparison) -> str:
    rows = _count(found.source_rows, "row")
    said = _different(found)
    if found.verdict == "equal":
        said = Sentence("Equal: %(rows)s at the source.", rows=rows)
    if not found.pending:
        return said
    changing = Sentence(
        "Not counted: %(keys)s that changed while they were compared.",
        keys=_count(found.pending, "key"),
    )
    return joined((said, changing), THEN)


def _different(found: Comparison) -> Sentence:
    parts = []
    if found.missing:
        rows = _count(found.missing, "row")
        parts.append(Sentence("%(rows)s missing in the lake", rows=rows))
    if found.extra:
        rows = _count(found.extra, "row")
        parts.append(Sentence("%(rows)s only in the lake", rows=rows))
    if found.different:
        keys = _count(found.different, "key")
        parts.append(Sentence("%(keys)s with other values", keys=keys))
    return Sentence("Different: %(what)s.", what=joined(parts, AND))


def _rest(found: Comparison) -> Iterator[Sentence]:
    if found.kept:
        yield Sentence(
            "Partial updates kept values that are NULL at the source for %(keys)s.",
            keys=_count(found.kept, "key"),
        )
    if found.ahead:
        yield Sentence(
            "%(rows)s at the source with a cursor value ahead of its clock: no sync"
            " reads them before that time.",
            rows=_count(found.ahead, "row"),
        )


def _count(number: int, thing: str) -> Sentence:
    one, many = _COUNTED[thing]
    return one if number == 1 else Sentence(many, count=f"{number:,}")


def differing_buckets(
    source: Mapping[int, Sums], lake: Mapping[int, Sums]
) -> list[int]:
    """Buckets whose sums are not the same, or that only one side has."""
    known = source.keys() | lake.keys()
    return sorted(b for b in known if source.get(b) != lake.get(b))


def readable_key(text: str | None, *, parts: int, is_native: bool) -> str:
    """A record key of the lake as its values, parted by commas.

    parts  columns of the key; 0 = a hash of the whole row, shown as it is
    is_native  the key is a column of the source itself
    """
    if text is None:
        return "NULL"
    if is_native or parts == 0:
        return text
    values = _split(text)
    return text if len(values) != parts else ", ".join(values)


def _split(text: str) -> list[str]:
    """`1:a3:b%2C` → a and b, (the commas are escaped after the lengths are)."""
    values = []
    while text:
        found = re.match(r"(\d+):", text)
        if found is None:
            return []
        end = found.end() + int(found[1])
        value, text = text[found.end() : end], text[end:]
        values.append(value.replace("%2C", ",").replace("%25", "%"))
    return values


def facts_of(
    found: Comparison,
    *,
    keys: Mapping[str, list[str]],
    instant: str,
    position: str,
    is_log: bool = False,
    again: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The facts of a job's report. `keys` are values of rows: not for all users.
    again: what a repair would read, `chunks` of `of`; None = none can mend it."""
    return {
        "verdict": found.verdict,
        "summary": words_for(found, position=position, is_log=is_log),
        "source_rows": found.source_rows,
        "lake_rows": found.lake_rows,
        "missing": found.missing,
        "extra": found.extra,
        "different": found.different,
        "pending": found.pending,
        "kept": found.kept,
        "ahead": found.ahead,
        "instant": instant,
        "position": position,
        "repair": again,
        "keys": {kind: list(keys.get(kind, ())) for kind in KINDS_OF_DIFFERENCE},
    }
