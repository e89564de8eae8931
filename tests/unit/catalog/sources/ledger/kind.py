"""What a ledger declares; its SQL is PostgreSQL's."""

from __future__ import annotations

from catalog.sources.kinds import SourceKind
from catalog.sources.postgresql.kind import POSTGRESQL
from tests.unit.catalog.sources.ledger import privileges, types

LEDGER = SourceKind(
    name="ledger",
    title="Ledger",
    default_port=4711,
    folder="tests.unit.catalog.sources.ledger",
    family=POSTGRESQL.family,
    types=types,
    privileges=privileges,
    database_means="one book",
    shares_snapshots=False,
)
