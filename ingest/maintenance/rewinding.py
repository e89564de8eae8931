"""What going back to a savepoint cannot bring back, in sentences. Pure.

Rows and position go back together; what the source said in between is asked for
again, as far as the source still says it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Counting on would tell nobody anything new.
MOST_COUNTED = 100_000

FOLLOWS_NOTHING = (
    "The table follows nothing at its source: it stays as it was then, until a resync"
)
AGAIN_AFTER = (
    "The next sync reads again the rows whose %(cursor)s lies after %(position)s, as"
    " the source has them now"
)
AGAIN_ALL = (
    "The next sync reads again the rows whose %(cursor)s lies at all times, as the"
    " source has them now"
)
DELETED = (
    "Rows that were deleted at the source since then are there again, and no sync sees"
    " that: they stay until a resync"
)
UNMARKED = (
    "Rows that were changed without a newer %(cursor)s keep the values of that moment"
    " until a resync"
)
FROM_LOG = (
    "What the source's log had since then is applied again, deletes too. If the lake"
    " has not kept all of it, the table needs a resync"
)
MISSED = (FOLLOWS_NOTHING, FROM_LOG, AGAIN_AFTER, AGAIN_ALL, DELETED, UNMARKED)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a source said when it was asked about the way from a position to now.

    later     rows that the next sync finds by their cursor, counted to MOST_COUNTED
    unmarked  rows without a cursor value that a sync reads, likewise
    broken    why it does not reach back to the position; "" = it does
    silent    why it could not be asked
    """

    later: int = 0
    unmarked: int = 0
    broken: str = ""
    silent: str = ""

    @property
    def reaches_back(self) -> bool | None:
        """None: nobody knows."""
        return None if self.silent else not self.broken


def what_is_missed(
    cursor: str | None,
    position: str,
    translate: Callable[[str], str] = str,
    *,
    follows_log: bool = False,
) -> tuple[str, ...]:
    """After going back to rows of that position; without `cursor` and log it follows
    nothing."""
    if follows_log:
        return (translate(FROM_LOG),)
    if not cursor:
        return (translate(FOLLOWS_NOTHING),)
    again = AGAIN_AFTER if position else AGAIN_ALL
    given = {"cursor": cursor, "position": position}
    return tuple(translate(text) % given for text in (again, DELETED, UNMARKED))


def what_the_source_says(cursor: str | None, reach: Reach) -> tuple[str, ...]:
    """Its answer, before the rows went back."""
    if not cursor:
        return ()
    if reach.broken:
        return (
            "The source no longer reaches back to that moment, so no sync can catch"
            f" up: {reach.broken}. Resync the table",
        )
    if reach.silent:
        return (
            "Whether the source still reaches back to that moment is not known, it"
            f" could not be asked: {reach.silent}",
        )
    told = [f"The source was asked: {_many(reach.later)} will be read again"]
    if reach.unmarked:
        many = _many(reach.unmarked)
        told.append(f"{many} there have no {cursor} that a sync reads")
    return tuple(told)


def _many(rows: int) -> str:
    if rows >= MOST_COUNTED:
        return f"{MOST_COUNTED} rows or more"
    return "1 row" if rows == 1 else f"{rows} rows"
