"""How PostgreSQL is tested and discovered."""

from __future__ import annotations

from catalog.sources.port import Discoverer
from catalog.sources.postgresql.discover import PostgresReader
from catalog.sources.postgresql.probe import PostgresSteps

DISCOVERER = Discoverer(reader=PostgresReader, steps=PostgresSteps)
