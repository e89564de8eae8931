"""What PostgreSQL declares as a kind of source. Pure."""

from __future__ import annotations

from catalog.sources.kinds import Family, SourceKind
from catalog.sources.postgresql import privileges, types

POSTGRESQL = SourceKind(
    name="postgresql",
    title="PostgreSQL",
    default_port=5432,
    folder="catalog.sources.postgresql",
    family=Family("postgresql", "PostgreSQL"),
    types=types,
    privileges=privileges,
    database_means="one database; all its schemas are read",
)
