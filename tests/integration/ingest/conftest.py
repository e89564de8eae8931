"""A source in the catalog, a lake in a directory, a driver host over the fake."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.receivers import Web, web_receiver
from tests.small_disk import may_mount
from tests.source_server import SourceServer
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.integration.ingest.following import World as Followed
    from tests.integration.ingest.world import World

collect_ignore = [] if may_mount() else ["test_full_chain_disk.py"]


@pytest.fixture(autouse=True)
def _quick_lake(settings, tmp_path, monkeypatch):
    from ingest.jobs import reconcile

    settings.SLUICE_LAKE_URI = str(tmp_path / "lake")
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"  # nobody is there
    # the test's PostgreSQL may be seconds old
    monkeypatch.setattr(reconcile, "GRACE_SECONDS", 0)
    monkeypatch.setattr("ingest.jobs.leases.GLITCH_SECONDS", 0)
    monkeypatch.setattr("core.jobs.moves.pause_after", lambda job, failures: 0.0)
    monkeypatch.setattr("ingest.jobs.reconcile.wait_after", lambda failures: 0.0)


@pytest.fixture(scope="module", autouse=True)
def _beginnings() -> Iterator[None]:
    """Older ones would have syncs that are due."""
    from tests.integration.ingest import beginnings

    yield
    beginnings.forget()


@pytest.fixture
def web() -> Iterator[Web]:
    """Where webhooks and group chats are reached."""
    with web_receiver() as found:
        yield found


@pytest.fixture
def loopback_alerts(settings: Any) -> None:
    """Alerts may go to receivers of tests."""
    settings.SLUICE_ALERT_NETWORKS_ALLOWED = ["127.0.0.0/8"]
    settings.SLUICE_PUBLIC_URL = "https://sluice.example"


@pytest.fixture
def world(db: Any) -> World:
    from tests.integration.ingest.world import World

    return World.make(clock=itertools.count(1.0).__next__)


@pytest.fixture
def log_dsn(source_pg: SourceServer) -> Iterator[str]:
    """A database of the source, whose slots go with it. A new slot waits for every
    transaction of the server: none that a failed test left open holds up others."""
    name = f"log_{uuid.uuid4().hex[:8]}"
    with source_pg.connect() as link:
        link.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
        )
    yield source_pg.create_database(name)
    of_it = "FROM pg_replication_slots WHERE database = %s"
    with source_pg.connect() as link:
        end = f"SELECT pg_terminate_backend(active_pid) {of_it} AND active"
        wait_for(lambda: not link.execute(end, [name]).fetchall(), "its slots")
        link.execute(f"SELECT pg_drop_replication_slot(slot_name) {of_it}", [name])
    source_pg.drop_database(name)


@pytest.fixture
def followed(log_dsn: str, tmp_path: Path) -> Iterator[Followed]:
    """See `tests.integration.ingest.following`."""
    from tests.integration.ingest.following import world_at

    with world_at(log_dsn, tmp_path) as world:
        yield world


@pytest.fixture
def reader(source_pg: SourceServer, followed: Followed) -> Iterator[str]:
    """The DSN of a login that may read the log and owns nothing."""
    name = "reads_log"
    source_pg.create_user(name, "pw", "REPLICATION")
    database = followed.dsn.rpartition("/")[2]
    followed.link.execute(f"REVOKE CREATE ON DATABASE {database} FROM PUBLIC")
    followed.link.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    at = f"{source_pg.host}:{source_pg.port}"
    yield f"postgresql://{name}:pw@{at}/{database}"
    followed.link.execute(f"DROP OWNED BY {name}")
