"""What going back to a savepoint cannot bring back, in sentences. Pure.

Rows and position go back together; what the source said in between is asked for
again, as far as the source still says it.
"""

from __future__ import annotations


def what_is_missed(cursor: str | None, position: str) -> tuple[str, ...]:
    """After going back to rows of that position; `cursor` None: it follows nothing."""
    if not cursor:
        return (
            "The table follows nothing at its source: it stays as it was then, until"
            " a re-sync",
        )
    since = f"after {position}" if position else "at all times"
    return (
        f"The next round reads again the rows whose {cursor} lies {since}, as the"
        " source has them now",
        "Rows that were deleted at the source since then are there again, and no round"
        " sees that: they stay until a re-sync",
        f"Rows that were changed without a newer {cursor} keep the values of that"
        " moment until a re-sync",
    )
