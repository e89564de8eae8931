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
from core.errors import SluiceError, TerminalError
from core.sentences import Sentence, as_sentence, joined

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
    "choose tls 'verify' unless you trust the network to the database",
    is_skipped=True,
)


def followable(lacks: Sequence[Lack], doubts: Sequence[str]) -> Outcome:
    """Whether a log can be followed that lacks this. doubts: what may end that."""
    if not lacks:
        return Outcome("its log can be followed", joined(doubts))
    reasons = as_sentence(joined(lack.reason for lack in lacks))
    mending = [lack.statement for lack in lacks if lack.statement]
    return Outcome(
        Sentence("its log cannot be followed yet: %(reasons)s", reasons=reasons),
        run_at_source(mending) if mending else "",
    )


def run_at_source(statements: Sequence[str]) -> Sentence:
    return Sentence(
        "run at the source: %(statements)s", statements=" ".join(statements)
    )


def readable_of(
    total: int,
    readable: int,
    *,
    user: str,
    grants: Sequence[str],
    missing: Sequence[str],
    stats_grant: str,
) -> Outcome:
    """Of how many tables the login can read rows. grants: what lets it read all of
    them; missing: what it lacks for those that it cannot read; stats_grant: what lets
    it see open transactions, "" = it does."""
    if total and not readable:
        raise without_privilege(
            Sentence(
                "user '%(user)s' may read none of %(total)s tables",
                user=user,
                total=total,
            ),
            grants,
        )
    hints = []
    if readable < total:
        hints.append(
            Sentence(
                "%(count)s more can be read with more grants: %(statements)s",
                count=total - readable,
                statements=" ".join(missing),
            )
        )
    if stats_grant:
        hints.append(
            Sentence(
                "timestamp capture cannot see open transactions of other users:"
                " %(statement)s",
                statement=stats_grant,
            )
        )
    return Outcome(
        Sentence(
            "%(readable)s of %(total)s tables can be read",
            readable=readable,
            total=total,
        ),
        joined(hints),
    )


def without_privilege(message: str, grants: Sequence[str]) -> TerminalError:
    return TerminalError(message, code="missing_privilege", hint=run_at_source(grants))


def too_old(server: str, oldest: str) -> TerminalError:
    """Both with the name of the product."""
    return TerminalError(
        "%(server)s is too old",
        oldest=oldest,
        server=server,
        code="version_too_old",
        hint="Sluice reads %(oldest)s and later",
    )


def secured(version: str, tls: str) -> Outcome:
    """version: of TLS. tls: as the datasource has it."""
    return Outcome(
        Sentence("%(tls)s, certificate checked", tls=version)
        if tls == "verify"
        else Sentence("%(tls)s, certificate not checked", tls=version)
    )


def sampled(table: str, *, has_rows: bool) -> Outcome:
    return Outcome(
        Sentence("%(table)s was read", table=table)
        if has_rows
        else Sentence("%(table)s was read, it is empty", table=table)
    )


NOTHING_TO_READ = Outcome("there is no table to read yet", is_skipped=True)


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
        if self.addresses == (self.access.host,):
            return Outcome("an address was given: there is no name to resolve")
        return Outcome(
            Sentence(
                "%(host)s is %(addresses)s",
                host=self.access.host,
                addresses=", ".join(self.addresses),
            )
        )

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
            place = f"{address}:{self.access.port}"
            return Outcome(Sentence("%(place)s accepts connections", place=place))
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
