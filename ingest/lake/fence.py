"""Fences: the smallest token that may still write to a table, as a file.

Whoever takes a table over raises its fence first; the lock provider in the
writer then refuses every older token. It must not know leases or jobs.
"""

from __future__ import annotations

from typing import Literal

from core.errors import StaleState, TerminalError
from ingest.contract.table import FenceSpec
from ingest.lake.place import place_at
from ingest.lake.port import Place

Scope = Literal["write", "service"]

# What a lease's token can be, and how much of a stranger's text is told.
_MOST = 2**62
_LONGEST = 40


def fence_path(lake: str, table_id: int, scope: Scope = "write") -> Place:
    """Ingest and table services hold different leases, so each has its fence."""
    suffix = "" if scope == "write" else ".service"
    return place_at(lake) / "_sluice" / "fence" / f"{table_id}{suffix}"


def fence_at(path: Place) -> int:
    """The token that may write now; 0 when nobody was ever let in."""
    found = path.read()
    return _token(path, None if found is None else found.decode("ascii", "replace"))


def raise_fence(path: Place, token: int) -> None:
    """Lets `token` in and everyone older out; StaleState when it is older itself.

    Raising to the token that is there already is allowed, so it can be repeated.
    """

    def raised(text: str | None) -> str | None:
        current = _token(path, text)
        if current > token:
            raise StaleState(
                "token %(token)s is superseded: the fence is at %(current)s",
                token=token,
                current=current,
                code="fenced",
                hint="another job took the table over; read its jobs again",
            )
        return None if current == token else f"{token}\n"

    path.update(raised)


def take_back(path: Place, token: int) -> int:
    """Lets in the holder of the table's lease, whatever stands there: a token beyond
    its own, or no token at all. The one that may write now, `token` or a higher one.

    Only a fence with exactly a writer's token lets it pass, so going down to a token
    that nobody was given yet shuts everybody else out as well.
    """
    current = foreign_token(path, upto=token)
    found = int(current) if current.isdecimal() else 0
    mine = found + 1 if token < found < _MOST else token
    path.replace(f"{mine}\n")
    return mine


def foreign_token(path: Place, *, upto: int) -> str:
    """What stands in the fence when none of ours can: a token above `upto`, or no
    token; else "". With that there nobody of ours is let in."""
    found = path.read()
    if found is None:
        return ""
    text = found.decode("ascii", "replace").strip()
    is_ours = text.isdecimal() and int(text) <= upto
    return "" if is_ours else text[:_LONGEST] or "nothing"


def require_fence(fence: FenceSpec) -> None:
    """StaleState unless exactly its token may write."""
    current = fence_at(place_at(fence.path))
    if current != fence.token:
        raise StaleState(
            "token %(token)s may not write: the fence is at %(current)s",
            token=fence.token,
            current=current,
            code="fenced",
            hint="another job took the table over; read its jobs again",
        )


def _token(path: Place, text: str | None) -> int:
    try:
        return 0 if text is None else int(text)
    except ValueError as error:
        raise TerminalError(
            "the fence file %(uri)s is damaged", uri=path.uri
        ) from error
