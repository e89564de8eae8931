"""What the lake keeps of the rows of a source and of a synced table, so that a lost
metadata database can be rebuilt from the lake. Without any secret. Pure.

A record is a small backup: what a table has applied since is in its newest commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from core.errors import TerminalError
from ingest.contract import members

VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A datasource as users gave it.

    has_password  it has to be entered again
    policies      settings given at the source ("") and at databases of it, by name
    is_log_stopped  somebody stopped the reader of its log
    """

    source_id: int
    name: str
    kind: str
    host: str
    port: int
    database: str
    username: str
    tls: str
    options: Mapping[str, Any] = field(default_factory=dict)
    has_password: bool = False
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_log_stopped: bool = False

    @property
    def subject(self) -> str:
        """What it is about, which never changes."""
        return self.name


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A lake table and its pipeline. Members are those of the rows of these names.

    source_…    the table that it comes from
    columns     as the catalogue shows them, of `schema_version`
    instant, epoch, position  of its newest commit when this was written
    """

    table_id: int
    source_id: int
    source_database: str
    source_table: str
    source_fingerprint: str
    estimated_rows: int
    comment: str
    plan: Mapping[str, Any]
    schema_version: int
    columns: tuple[Mapping[str, Any], ...]
    capture: str
    policy: Mapping[str, Any]
    drift: Mapping[str, Any]
    state: str
    status_reason: str
    resume_event: str
    consistency: str
    load_name: str
    bound: str
    is_queryable: bool
    instant: str
    epoch: int | None
    position: str

    @property
    def subject(self) -> str:
        """What it is about, which never changes: "database.table" of the lake."""
        return f"{self.plan.get('database')}.{self.plan.get('name')}"


def decode_record(kind: type[T], text: str | bytes, *, of: str) -> T:
    """TerminalError `record_damaged`, also when a newer release wrote it. of: which
    file it is."""
    try:
        return members.decode(kind, text, newest=VERSION)
    except ValueError as error:
        raise TerminalError(
            "%(of)s cannot be read: %(error)s. Nothing was changed",
            of=of,
            error=error,
            code="record_damaged",
            hint="put the file back from a copy of the lake, or add its table again",
        ) from error
