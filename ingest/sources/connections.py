"""What each kind of source can do by connections of its own, beside its reader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from catalog.sources.registry import family_of
from ingest.sources.mariadb import connection as mariadb
from ingest.sources.port import Snapshot, SourceAccess
from ingest.sources.postgresql import connection as postgresql


class Connections(Protocol):
    """The `connection` module of a kind's folder."""

    @property
    def LIVE_SECONDS(self) -> int:
        """A statement of a SQL user may take so long at the source."""

    @property
    def LIVE_PROPERTIES(self) -> Mapping[str, str]:
        """Of JDBC, for such a statement."""

    def cancel_statements(self, access: SourceAccess) -> None:
        """Cancels what this application runs at the source now. Spark cannot: a task
        that waits for its first row ignores its kill."""

    def end_live(self, access: SourceAccess) -> None:
        """Ends what a client that is gone has left there, by its application."""

    def describe_sessions(self, access: SourceAccess) -> str:
        """What the source does for this application now, in words, by a new connection.
        TimeoutError when it does not answer; SOURCE_ERRORS are answers, too."""

    def idle_sessions(
        self, access: SourceAccess, sessions: Collection[int]
    ) -> frozenset[int]:
        """Those of this application's sessions for which the source has nothing to do,
        or only wait until their rows are fetched. Fails like `describe_sessions`."""

    def jdbc_options(
        self, access: SourceAccess, sql: str, snapshot: Snapshot
    ) -> dict[str, str]:
        """Spark's options to read the rows of `sql` in `snapshot`."""

    def jdbc_connection(self, access: SourceAccess) -> dict[str, str]:
        """How JDBC connects, whatever it then reads: `url`, `driver`, properties."""

    def live_session(self, seconds: int) -> tuple[str, ...]:
        """What begins a session for statements of SQL users that may take so long."""


_CONNECTIONS: dict[str, Connections] = {"postgresql": postgresql, "mariadb": mariadb}


def connections_of(access: SourceAccess) -> Connections:
    return _CONNECTIONS[family_of(access.spec.kind)]
