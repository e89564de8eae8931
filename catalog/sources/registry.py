"""Which parts read and test a source of each kind, and what a user needs there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from catalog.sources.access import SourceAccess
from catalog.sources.kinds import kind_named
from catalog.sources.mariadb import privileges as mariadb_needs
from catalog.sources.mariadb.discover import MariadbReader
from catalog.sources.mariadb.probe import MariadbSteps
from catalog.sources.port import SourceReader
from catalog.sources.postgresql import privileges as needs
from catalog.sources.postgresql.discover import PostgresReader
from catalog.sources.postgresql.probe import PostgresSteps
from catalog.sources.steps import Steps


@dataclass(frozen=True, slots=True)
class Source:
    """The parts of one kind. `script`: of (user, database), for an administrator."""

    reader: Callable[[SourceAccess], SourceReader]
    script: Callable[[str, str], str]
    steps: Callable[[SourceAccess, contextlib.ExitStack], Steps]


def _of_postgresql(username: str, database: str) -> str:
    return needs.script_for(username, database, ["public"])


def _of_mariadb(username: str, database: str) -> str:
    return mariadb_needs.script_for(username, [database])


_MARIADB = Source(MariadbReader, script=_of_mariadb, steps=MariadbSteps)
_SOURCES = {
    "postgresql": Source(PostgresReader, script=_of_postgresql, steps=PostgresSteps),
    "mariadb": _MARIADB,
    "mysql": _MARIADB,
}


def source_of(kind: str) -> Source:
    """InvalidRequest for a kind that is unknown or of a later release."""
    return _SOURCES[kind_named(kind).name]


def needs_script(kind: str, username: str, database: str) -> str:
    """'What this user needs', as statements to paste."""
    return source_of(kind).script(username, database)
