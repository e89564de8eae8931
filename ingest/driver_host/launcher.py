"""The port between the host and whatever runs Spark: processes here, pipes there.

Knows messages of `ingest.contract`; must not know rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from core.processes.marks import Mark
from ingest.contract.applying import ApplyWork
from ingest.contract.job import JobSpec, SecretAnswer

# In the environment of a driver, and so of everything it starts.
MARK = "SLUICE_DRIVER_BOOT"

MessageKind = Literal[
    "ready",
    "accepted",
    "secret_request",
    "heartbeat",
    "log",
    "report",
    "applied",
    "died",
    "unreachable",
    "woken",
]
# abandon: the job is over for everybody else, whatever its threads still do
CancelMode = Literal["cancel", "pause", "abandon"]


@dataclass(frozen=True, slots=True)
class Message:
    """One line from a driver, or what the launcher itself found: `died`, `unreachable`
    again and again while it cannot find out whether the process lives, and `woken`.

    origin  which process: "" = the warm driver, else the job id that has its own
    """

    kind: MessageKind
    data: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""


KINDS = frozenset(get_args(MessageKind)) - {"died", "unreachable", "woken"}


def message_from(data: Mapping[str, Any], origin: str) -> Message | None:
    """What a driver sent, or None for noise that some library printed."""
    rest = dict(data)
    kind = rest.pop("type", None)
    is_known = isinstance(kind, str) and kind in KINDS
    return Message(kind, rest, origin) if is_known else None


def mark_of(value: str) -> Mark:
    """By which the processes of an incarnation are found."""
    return Mark(MARK, value)


class Launcher(Protocol):
    """Never blocks for longer than `seconds`, never raises because a process died:
    that arrives as a `died` message, after which the process is surely gone."""

    def start(self, incarnation: str) -> None:
        """Start the warm driver. `ready` or `died` will follow."""
        ...

    @property
    def is_running(self) -> bool: ...

    @property
    def pid(self) -> int | None:
        """Of the warm driver."""
        ...

    def submit(self, spec: JobSpec, *, isolated: bool) -> None:
        """Hand it over; `accepted` follows. isolated: in a process of its own."""
        ...

    def cancel(self, job_id: str, mode: CancelMode) -> None: ...

    def apply(self, work: ApplyWork) -> None:
        """Have the warm driver go by this work; `applied` follows, again and again."""
        ...

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None: ...

    def ping(self) -> None:
        """Tell every process that its host lives."""
        ...

    def poll(self, seconds: float) -> list[Message]:
        """What was said since; waits at most so long for the first."""
        ...

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        ...

    def kill(self, origin: str = "") -> None:
        """End that process and all it started, at once; `died` follows."""
        ...

    def stop(self) -> None:
        """End everything; nothing is left behind when this returns."""
        ...
