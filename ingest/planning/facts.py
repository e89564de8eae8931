"""What planning needs to know about a source table, and what people chose for it.

Values only: their builder reads the catalog or the source; planning never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from catalog.schema.source_log import Lack, TableLog
from catalog.schema.types import TableSchema
from catalog.sources.registry import kind_named
from ingest.contract.table import Updates

ROW_HASH: Literal["row_hash"] = "row_hash"

LOG: Literal["log"] = "log"
TIMESTAMP: Literal["timestamp"] = "timestamp"

Capture = Literal["snapshot", "timestamp", "log"]
RecordKey = tuple[str, ...] | Literal["row_hash"] | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A source table as discovery saw it.

    unique_indexes  source names of each unique index, expression-free
    indexed         source names that lead some index
    estimated_bytes heap size at the source, without indexes; 0 = unknown
    fingerprint     of the columns; compared again before the load runs
    sees_all_transactions  whether the login may see other sessions' open
                    transactions; None = not known
    username        of the login, for statements that an administrator may run
    source_kind, relation, traits, key_forms, hidden, hidden_key, hides_indexes,
    is_standby, zone_delay, log, log_lacks  see `DiscoveredTable` and `Overview`
    """

    database: str
    name: str
    schema: TableSchema
    estimated_rows: int = 0
    estimated_bytes: int = 0
    unique_indexes: tuple[tuple[str, ...], ...] = ()
    indexed: frozenset[str] = frozenset()
    fingerprint: str = ""
    sees_all_transactions: bool | None = None
    source_kind: str = field(kw_only=True)
    relation: str = "table"
    traits: frozenset[str] = frozenset()
    key_forms: Mapping[str, str] = field(default_factory=dict)
    is_standby: bool | None = False
    zone_delay: int = 0
    hidden: tuple[str, ...] = ()
    hidden_key: tuple[str, ...] = ()
    hides_indexes: bool = False
    username: str = ""
    log: TableLog | None = None
    log_lacks: tuple[Lack, ...] = ()

    def grant_of(self, columns: Sequence[str]) -> str:
        """The statement that lets the login read them, too."""
        privileges = kind_named(self.source_kind).privileges
        return privileges.select_grant(self.username, self.database, self.name, columns)

    @property
    def structure_grant(self) -> str:
        """The statement that shows the login all columns and keys."""
        privileges = kind_named(self.source_kind).privileges
        return privileges.structure_grant(self.username, self.database, self.name)

    @property
    def source_name(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Choices:
    """What the request fixed for one table; None and () mean "propose it".

    record_key      source names, or "row_hash"
    exclude_columns source names that are not carried at all
    as_text         source names that are carried as text, whatever their type
    lake            "database.table" in the lake, instead of the derived name
    updates         see `TableSpec`
    capture, schedule  of this table, instead of those of the request; the schedule
                    as policies store it
    """

    record_key: RecordKey = None
    cursor: str | None = None
    partition_by: tuple[str, ...] = ()
    buckets: int | None = None
    exclude_columns: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    lake: str | None = None
    updates: Updates | None = None
    capture: Capture | None = None
    schedule: object = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where the table goes: derived lake names, column by column, and the path.

    column_names  source name → lake name
    lossy         source name → what becomes of values the lake cannot hold
    is_chosen     people named its database; else it was derived from the source's
    """

    database: str
    name: str
    path: str
    column_names: dict[str, str] = field(default_factory=dict)
    lossy: dict[str, Literal["", "null", "string"]] = field(default_factory=dict)
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds for the tables of one database in a request.

    free_bytes    space left where staging and tables lie; None = unknown
    lag_seconds   safety lag of timestamp capture behind the source's clock
    lag_is_chosen  it was set by policy
    is_sharded    the table is one of several that become one lake table
    when          the schedule in words; every_seconds is set for a plain interval
    lock          see `TableSpec`
    """

    capture: Capture
    every_seconds: int | None = None
    when: str = ""
    lag_seconds: float = 5.0
    lag_is_chosen: bool = False
    free_bytes: int | None = None
    lock: str = ""
    is_sharded: bool = False
