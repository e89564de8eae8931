"""What becomes of a table when the lake knows more than a restored database. Pure.

The lake is right: its commits tell position, epoch and identity. It must not know how
either of them was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.sentences import Sentence, joined
from ingest.contract.source_positions import is_of_log
from ingest.planning.facts import TIMESTAMP

Status = Literal[
    "agrees", "ahead", "went back", "missing", "needs resync", "busy", "unreachable"
]

# Statuses whose rows take over what the lake says.
FOLLOWED: frozenset[Status] = frozenset({"ahead", "went back"})
_TWO_PLACES = "the lake is at %(lake)s, the database at %(database)s"


@dataclass(frozen=True, slots=True)
class Known:
    """A table as the database has it.

    instant     its newest commit; "" = never loaded
    epoch       of that commit
    position    where capture goes on, "" = nowhere
    source      datasource id
    columns     of its plan, in the lake
    is_busy     a job of a live driver works on it
    capture     by what it is kept up
    """

    instant: str
    epoch: int
    position: str
    source: int
    columns: frozenset[str]
    is_busy: bool = False
    capture: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """The same table as its lake has it.

    instant    its newest commit of a sync, a load or a repair; "" = none
    newest     the same, compactions included
    end        the position of `instant`
    columns    of its newest schema, Sluice's own left out; () = not told
    problem    why it cannot be read; `is_passing`: later it may be
    drift      how its identity differs, the number of buckets left out
    """

    instant: str = ""
    newest: str = ""
    end: str = ""
    epoch: int = 0
    source: int = 0
    columns: frozenset[str] = frozenset()
    drift: tuple[str, ...] = ()
    problem: str = ""
    is_passing: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """position: where capture goes on; it is set with "ahead" and "went back"."""

    status: Status
    message: str
    position: str = ""


def judge(known: Known, seen: Seen) -> Finding:
    if known.is_busy:
        return Finding("busy", "a job of a live driver works on it: run this again")
    if seen.problem:
        status: Status = "unreachable" if seen.is_passing else "needs resync"
        return Finding(status, seen.problem)
    if not seen.instant:
        return _without_commit(known)
    if why := _differs(known, seen):
        return Finding("needs resync", why)
    if not known.instant:
        return Finding(
            "ahead",
            Sentence("its snapshot is in the lake: %(instant)s", instant=seen.instant),
            seen.end,
        )
    if seen.epoch < known.epoch or seen.newest < known.instant:
        said = Sentence(_TWO_PLACES, lake=seen.newest, database=known.instant)
        return Finding("went back", said, seen.end)
    if seen.instant > known.instant or seen.epoch > known.epoch:
        said = Sentence(_TWO_PLACES, lake=seen.instant, database=known.instant)
        return Finding("ahead", said, _goes_on(known, seen))
    return Finding("agrees", Sentence("both are at %(instant)s", instant=seen.instant))


def _goes_on(known: Known, seen: Seen) -> str:
    """A commit by a log says nothing of the cursor: what is behind the known position
    is written once more."""
    is_by_log = known.capture == TIMESTAMP and is_of_log(seen.end)
    return known.position if is_by_log else seen.end


def _without_commit(known: Known) -> Finding:
    if known.instant:
        said = Sentence(
            "the database knows commit %(instant)s, the lake has none",
            instant=known.instant,
        )
        return Finding("missing", said)
    return Finding("agrees", "not loaded yet")


def _differs(known: Known, seen: Seen) -> str:
    if seen.source not in {0, known.source}:
        return Sentence(
            "the lake's rows are of source %(source)s, not %(planned)s",
            source=seen.source,
            planned=known.source,
        )
    if seen.drift:
        return Sentence(
            "the lake is not what the plan says: %(drift)s", drift=joined(seen.drift)
        )
    more = ", ".join(sorted(seen.columns - known.columns)) if seen.columns else ""
    return (
        Sentence(
            "the lake has columns that the plan does not know: %(more)s", more=more
        )
        if more
        else ""
    )


def summary(findings: Sequence[Finding]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in findings:
        found[one.status] = found.get(one.status, 0) + 1
    return found
