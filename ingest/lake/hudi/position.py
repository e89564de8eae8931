"""The `_sluice` key of a commit: where its data came from, atomic with the data.

The lake is the truth for positions; database rows are caches of this. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from core.errors import TerminalError
from ingest.contract import members
from ingest.lake.hudi.identity import TableIdentity

EXTRA_KEY = "_sluice"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Where the rows of a load were read, of a table that is followed by its log.

    at        position: all that the load shows was committed before it
    snapshot  which transactions it shows, as the source's kind says it; segments that
              begin before `at` have them once more, and they are dropped there. "" =
              its chunks show several moments: all that the log has since the load's cut
              is applied, which is exact where the log has whole rows
    """

    at: str
    snapshot: str


class CommitPosition(
    msgspec.Struct,
    frozen=True,
    rename={"start": "from", "end": "to"},
    omit_defaults=True,
):
    """One commit's way: source positions, epochs, and who wrote it.

    source      datasource id
    start, end  source positions as text; "" = none (start of a load)
    run         job id of the writer
    fence       token under which it wrote
    load        of the newest load, until everything up to its `at` is applied
    load_name   of a load's own commit: which load it is, over all of its jobs
    """

    source: int
    start: str
    end: str
    epoch_from: int
    epoch_to: int
    run: str
    fence: int
    identity: TableIdentity
    load: LoadPoint | None = None
    load_name: str = ""


def encode_position(position: CommitPosition) -> str:
    return members.encode(position, version=VERSION)


def decode_position(text: str) -> CommitPosition:
    """Members that are not known are ignored. TerminalError `unknown_position` when it
    is damaged, or of a newer version."""
    try:
        return members.decode(CommitPosition, text, newest=VERSION)
    except ValueError as error:
        raise TerminalError(
            f"the position in the lake's last commit cannot be read: {error}",
            code="unknown_position",
            hint="run this table with the release that wrote it, or a newer one",
        ) from error


def latest(positions: Iterable[CommitPosition]) -> CommitPosition | None:
    """The furthest of positions whose order is not known."""
    return max(positions, key=lambda p: (p.epoch_to, p.fence), default=None)
