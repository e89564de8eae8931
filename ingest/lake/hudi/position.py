"""The `_sluice` key of a commit: where its data came from, atomic with the data.

The lake is the truth for positions; database rows are caches of this. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import TerminalError
from ingest.contract.members import version_of
from ingest.lake.hudi.identity import TableIdentity

EXTRA_KEY = "_sluice"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Where the rows of a load were read, of a table that is followed by its log.

    at        position: all that the load shows was committed before it
    snapshot  which transactions it shows, as the source's kind says it; segments that
              begin before `at` have them once more, and they are dropped there
    """

    at: str
    snapshot: str


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """One commit's way: source positions, epochs, and who wrote it.

    source      datasource id
    start, end  source positions as text; "" = none (start of a load)
    run         job id of the writer
    fence       token under which it wrote
    load        of the newest load, until everything up to its `at` is applied
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


def encode_position(position: CommitPosition) -> str:
    data: dict[str, Any] = {
        "v": VERSION,
        "source": position.source,
        "from": position.start,
        "to": position.end,
        "epoch_from": position.epoch_from,
        "epoch_to": position.epoch_to,
        "run": position.run,
        "fence": position.fence,
        "identity": position.identity.to_data(),
    }
    if position.load is not None:
        data["load"] = {"at": position.load.at, "snapshot": position.load.snapshot}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def decode_position(text: str) -> CommitPosition:
    """Members that are not known are ignored. TerminalError `unknown_position` when it
    is damaged, or of a newer version."""
    try:
        data: Mapping[str, Any] = json.loads(text)
        version = version_of(data)
        if version > VERSION:
            raise ValueError(
                f"version {version}, this release reads versions up to {VERSION}"
            )
        return CommitPosition(
            source=int(data["source"]),
            start=str(data["from"]),
            end=str(data["to"]),
            epoch_from=int(data["epoch_from"]),
            epoch_to=int(data["epoch_to"]),
            run=str(data["run"]),
            fence=int(data["fence"]),
            identity=TableIdentity.from_data(data["identity"]),
            load=_load_of(data.get("load")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TerminalError(
            f"the position in the lake's last commit cannot be read: {error}",
            code="unknown_position",
            hint="run this table with the release that wrote it, or a newer one",
        ) from error


def _load_of(data: Mapping[str, Any] | None) -> LoadPoint | None:
    return LoadPoint(str(data["at"]), str(data["snapshot"])) if data else None


def latest(positions: Iterable[CommitPosition]) -> CommitPosition | None:
    """The furthest of positions whose order is not known."""
    return max(positions, key=lambda p: (p.epoch_to, p.fence), default=None)
