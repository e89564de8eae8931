"""A source database with a plain reader, and a doorbell that only writes down."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # Models load only once pytest-django has set Django up.
    from tests.integration.discovery.mariadb_support import MariadbSource
    from tests.integration.discovery.support import Source


@pytest.fixture(scope="session")
def reader_role(source_pg) -> str:
    from tests.integration.discovery.support import PASSWORD, READER

    source_pg.create_user(READER, PASSWORD)
    return READER


@pytest.fixture(scope="session")
def shared_database(source_pg) -> Iterator[str]:
    """One database for all tests here: making one takes longer than most tests."""
    name = "discovery_source"
    source_pg.create_database(name)
    yield name
    source_pg.drop_database(name)


@pytest.fixture
def source(source_pg, shared_database, reader_role) -> Iterator[Source]:
    """An empty source; what the test made is gone afterwards."""
    from tests.integration.discovery.support import Source

    found = Source(source_pg, shared_database)
    yield found
    found.clear()


@pytest.fixture
def own_source(source_pg, reader_role) -> Iterator[Source]:
    """A source in a database of its own, for what is too much to clear."""
    from tests.integration.discovery.support import Source

    name = f"src_{uuid.uuid4().hex[:10]}"
    source_pg.create_database(name)
    yield Source(source_pg, name)
    source_pg.drop_database(name)


@pytest.fixture
def maria(mariadb_server) -> Iterator[MariadbSource]:
    """A MariaDB with one empty database that the login may read."""
    from tests.integration.discovery.mariadb_support import MariadbSource

    found = MariadbSource(mariadb_server)
    found.begin()
    yield found
    found.clear()


@pytest.fixture(autouse=True)
def rung(monkeypatch) -> list[uuid.UUID]:
    """Ids of the jobs that were rung for."""
    from catalog import dispatch
    from core.jobs import pages

    calls: list[uuid.UUID] = []

    def ring(job_id: uuid.UUID) -> bool:
        calls.append(job_id)
        return True

    monkeypatch.setattr(dispatch, "notify_worker", ring)
    monkeypatch.setattr(pages, "_notified", {})
    return calls
