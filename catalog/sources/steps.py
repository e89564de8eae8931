"""The steps of a connection test, whatever the kind of source, and what each says.

A kind adds how its protocol does TLS and login; errors become clear words there.
"""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from catalog.schema.source_log import Lack
from catalog.sources.access import SourceAccess, resolved
from core.errors import SluiceError

Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step's outcome. `hint` on an ok step is advice; `raw` the source's words."""

    name: str
    status: Status
    message: str
    hint: str = ""
    code: str = ""
    raw: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step says when it went well. `is_skipped`: there was nothing to do."""

    message: str
    hint: str = ""
    is_skipped: bool = False


WITHOUT_TLS = Outcome(
    "TLS is switched off for this datasource",
    "set tls to 'verify' unless the network in between is trusted",
    is_skipped=True,
)


def followable(lacks: Sequence[Lack], doubts: Sequence[str] = ()) -> Outcome:
    """Whether a log can be followed that lacks this. doubts: what may end that."""
    if not lacks:
        return Outcome("its log can be followed", "; ".join(doubts))
    reasons = "; ".join(lack.reason for lack in lacks)
    mending = " ".join(lack.statement for lack in lacks if lack.statement)
    return Outcome(
        f"its log cannot be followed yet: {reasons}",
        f"run at the source: {mending}" if mending else "",
    )


class Steps(ABC):
    """One test of one source. Each step finds out something for those after it.

    stack   closes what the steps opened
    facts   worth keeping: server version, privileges
    errors  that a step may raise and `explained` puts in words
    """

    errors: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, access: SourceAccess, stack: contextlib.ExitStack) -> None:
        self.access = access
        self.stack = stack
        self.addresses: tuple[str, ...] = ()
        self.socket: socket.socket | None = None
        self.facts: dict[str, Any] = {}

    @abstractmethod
    def explained(self, error: Exception) -> SluiceError: ...

    def resolve(self) -> Outcome:
        self.addresses = resolved(self.access)
        return Outcome(f"{self.access.host} is {', '.join(self.addresses)}")

    def tcp(self) -> Outcome:
        """The first address that accepts is the one all later steps use."""
        failure: OSError = OSError("no address")
        for address in self.addresses:
            try:
                connection = socket.create_connection(
                    (address, self.access.port), timeout=self.access.connect_timeout
                )
            except OSError as error:
                failure = error
                continue
            self.socket = self.stack.enter_context(contextlib.closing(connection))
            self.addresses = (address,)
            return Outcome(f"{address}:{self.access.port} accepts connections")
        raise failure

    @abstractmethod
    def tls(self) -> Outcome: ...

    @abstractmethod
    def login(self) -> Outcome: ...

    @abstractmethod
    def version(self) -> Outcome: ...

    @abstractmethod
    def privileges(self) -> Outcome: ...

    def log(self) -> Outcome:
        """Whether its log can be followed, and what that needs; other ways of capture
        go on without it."""
        return Outcome("the log of such a source is not followed", is_skipped=True)

    @abstractmethod
    def sample(self) -> Outcome: ...
