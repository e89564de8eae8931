"""What going back to a savepoint cannot bring back, in sentences. Pure.

Rows and position go back together; what the source said in between is asked for
again, as far as the source still says it.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.sentences import Sentence
from ingest.maintenance.descriptions import counted

# Counting on would tell nobody anything new.
MOST_COUNTED = 100_000

FOLLOWS_NOTHING = Sentence(
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
DELETED = Sentence(
    "Rows that were deleted at the source since then are there again, and no sync sees"
    " that: they stay until a resync"
)
UNMARKED = (
    "Rows that were changed without a newer %(cursor)s keep the values of that moment"
    " until a resync"
)
FROM_LOG = Sentence(
    "What the source's log had since then is applied again, deletes too. If the lake"
    " has not kept all of it, the table needs a resync"
)


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
    cursor: str | None, position: str, *, follows_log: bool = False
) -> tuple[str, ...]:
    """After going back to rows of that position; without `cursor` and log it follows
    nothing."""
    if follows_log:
        return (FROM_LOG,)
    if not cursor:
        return (FOLLOWS_NOTHING,)
    again = AGAIN_AFTER if position else AGAIN_ALL
    return (
        Sentence(again, cursor=cursor, position=position),
        DELETED,
        Sentence(UNMARKED, cursor=cursor),
    )


def what_the_source_says(cursor: str | None, reach: Reach) -> tuple[str, ...]:
    """Its answer, before the rows went back."""
    if not cursor:
        return ()
    if reach.broken:
        return (
            Sentence(
                "Resync the table: the source no longer reaches back to that moment,"
                " and each sync fails: %(why)s",
                why=reach.broken,
            ),
        )
    if reach.silent:
        return (
            Sentence(
                "Whether the source still reaches back to that moment is not known, it"
                " could not be asked: %(why)s",
                why=reach.silent,
            ),
        )
    told = [
        Sentence(
            "The source was asked: %(rows)s will be read again", rows=_many(reach.later)
        )
    ]
    if reach.unmarked:
        told.append(
            Sentence(
                "%(rows)s there have no %(cursor)s that a sync reads",
                rows=_many(reach.unmarked),
                cursor=cursor,
            )
        )
    return tuple(told)


def _many(rows: int) -> str:
    if rows >= MOST_COUNTED:
        return Sentence("%(count)s rows or more", count=MOST_COUNTED)
    return counted(rows, "row")
