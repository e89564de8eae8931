"""One follower as a child process: started, told what to follow, and gone. Knows
nothing of rows.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.processes.child import ChildSpec
from core.processes.identity import write_identity
from core.processes.talking import TalkingChild
from ingest.contract.following import FollowSpec, FollowTable
from ingest.contract.job import SecretAnswer
from ingest.contract.members import as_data

# Of the silence that ends it: one that is late by two of them goes on.
PINGS_IN_SILENCE = 4
# Its last segment is durable or is not: there is nothing to wait for beyond a write.
STOP_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class FollowerCommand:
    """How to start a follower. `environment` is complete: nothing is inherited.

    run       where the process is noted, one file each
    silence_seconds  it ends when it hears nothing for so long
    """

    program: Sequence[str]
    environment: Mapping[str, str]
    logs: Path
    run: Path
    silence_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class News:
    """What came from a child; `ended` once it is gone, and nothing of it comes after.

    source  id of the datasource; 0 = none, the host was woken
    start   which start of the child it is of
    """

    kind: str
    source: int = 0
    start: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class FollowerChild:
    """One start. tables: those that it was sent."""

    process: TalkingChild
    spec: FollowSpec
    start: int
    tables: tuple[FollowTable, ...]

    def send_tables(self, tables: tuple[FollowTable, ...]) -> None:
        self.tables = tables
        self.process.send({"type": "tables", **told("tables", tables)})

    def give_secret(self, answer: SecretAnswer) -> None:
        self.process.send({"type": "secret", **as_data(answer)})


def start_follower(
    command: FollowerCommand,
    spec: FollowSpec,
    *,
    start: int,
    news: queue.SimpleQueue[News],
) -> FollowerChild:
    """The thread that calls this must live as long as the child."""
    source, silence = spec.source.datasource_id, command.silence_seconds
    name = f"follower-{source}"
    note = command.run / f"{name}.pid.json"

    def hear(data: dict[str, Any]) -> None:
        news.put(News(str(data.pop("type", "")), source, start, data))

    def ended(code: int | None) -> None:
        note.unlink(missing_ok=True)
        news.put(News("ended", source, start, {"code": code}))

    process = TalkingChild(
        ChildSpec(
            name=name,
            command=command.program,
            environment=command.environment,
            log=command.logs / f"{name}.log",
        ),
        {"type": "hello", "silence_seconds": silence, **told("spec", spec)},
        hear=hear,
        ended=ended,
        ping_seconds=silence / PINGS_IN_SILENCE,
    )
    write_identity(note, process.pid, "follower")
    process.talk()
    return FollowerChild(process, spec, start, spec.tables)


def told(name: str, value: Any) -> dict[str, Any]:
    """A member of a message, with what its sentences were made of."""
    origins: dict[str, Any] = {}
    return {name: as_data(value, origins), "sentences": origins}
