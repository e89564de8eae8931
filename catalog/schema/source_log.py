"""Whether a source's log can be followed, and what it has of a table. Values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.sentences import Sentence


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that keeps a source's log from being followed, and the statement that
    mends it; "" = none does."""

    reason: str
    statement: str = ""


@dataclass(frozen=True, slots=True)
class TableLog:
    """What a source's log has of a table.

    is_full       the whole former row of each change; else only its columns `identity`
    identity      () = none, so nobody could tell which row was changed
    left_out      columns that it does not carry
    is_published  something at the source sends all of its changes
    may_publish   the login may bring that about
    lesser_parts  partitions of which it has less than is_full and identity say
    unfit         why it has not exactly what happens to the table; "" = it has
    tells_older   rows can be taken on over a column that is added: those behind it have
                  it, and those before it get what `older` says
    older_by_log  what that was is sure once the log was read to it: `older` has what
                  the column would give now
    tells_dropped  over one that is dropped, too: those behind it lack it
    older         column → what its DEFAULT gave to the rows that were there as it was
                  added, as the source prints it
    untold        columns that may have given such rows values which nothing tells
    unread        columns that it carries in a form which nobody here reads
    """

    is_full: bool = False
    identity: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    is_published: bool = False
    may_publish: bool = False
    lesser_parts: tuple[str, ...] = ()
    unfit: str = ""
    tells_older: bool = False
    older_by_log: bool = False
    tells_dropped: bool = False
    older: Mapping[str, str] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def parts_in_words(parts: Sequence[str]) -> str:
    """There may be thousands: the first speaks for them."""
    if len(parts) == 1:
        return Sentence("its partition %(part)s", part=parts[0])
    return Sentence(
        "its partition %(part)s (and %(count)s more)",
        part=parts[0],
        count=len(parts) - 1,
    )
