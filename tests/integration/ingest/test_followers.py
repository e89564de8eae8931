"""`manage.py followers` with real followers before a real PostgreSQL: whatever dies or is
away, each change of the source is in the stream once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import psutil
import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from psycopg import sql

from catalog.secrets import encrypt
from config.embedded import EmbeddedPostgres
from core.models import Lease
from core.processes.identity import read_identity
from ingest.lake.chain import ChainIndex, read_rows, stream_folder
from ingest.models import Pipeline, SourceFollower
from ingest.pipelines.followers import stop_capture
from tests.integration.ingest.world import World
from tests.processes import family, wait_until_gone
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
LEASE_SECONDS = "4"
ROWS = (
    "INSERT INTO orders SELECT n, 'n', now() FROM generate_series(%s::int, %s::int) n"
)


@dataclass
class Followed:
    """A source with one table that is read from its log, and hosts of followers."""

    world: World
    link: psycopg.Connection[Any]
    environment: dict[str, str]
    folder: Path
    hosts: list[subprocess.Popen[bytes]] = field(default_factory=list)
    inserted: int = 0

    def start_host(self) -> Path:
        """A host with a home of its own, as on another machine."""
        home = self.folder / f"home{len(self.hosts)}"
        (home / "logs").mkdir(parents=True)
        shutil.copytree(Path(settings.SLUICE_HOME) / "keys", home / "keys")
        with (home / "logs" / "followers.log").open("wb") as log:
            host = subprocess.Popen(
                [sys.executable, "manage.py", "followers"],
                cwd=settings.BASE_DIR,
                env=self.environment | {"SLUICE_HOME": str(home)},
                stdout=log,
                stderr=log,
            )
        self.hosts.append(host)
        return home

    def insert(self, rows: int = 10) -> None:
        self.link.execute(ROWS, [self.inserted + 1, self.inserted + rows])
        self.inserted += rows

    def in_stream(self) -> int:
        """Rows of the table, in whatever segments they are."""
        folder = stream_folder(
            settings.SLUICE_LAKE_URI, f"source{self.world.source.pk}"
        )
        if (folder / "beginning.json").read() is None:
            return 0
        index = ChainIndex(folder, folder.name)
        segments = []
        while page := index.refresh():
            segments += page
        parts = [(s, part) for s in segments for part in s.parts]
        for segment, part in parts:
            read_rows(folder, segment, part)
        return sum(part.rows for _, part in parts)

    def until_all_is_there(self) -> None:
        wait_for(lambda: self.in_stream() == self.inserted, self.told, pause=0.2)

    def until(self, check: Callable[[SourceFollower], object]) -> SourceFollower:
        def found() -> SourceFollower | None:
            row = SourceFollower.objects.filter(datasource=self.world.source).first()
            return row if row is not None and check(row) else None

        return wait_for(found, self.told, pause=0.1)

    def told(self) -> str:
        logs = [p.read_text()[-2000:] for p in self.folder.glob("home*/logs/*.log")]
        return f"{list(SourceFollower.objects.values())} {self.in_stream()} {logs}"

    def close(self) -> None:
        for host in self.hosts:
            host.terminate()
        for host in self.hosts:
            host.wait()


@pytest.fixture
def followed(
    world: World, log_dsn: str, sluice_environment: dict[str, str], tmp_path: Path
) -> Iterator[Followed]:
    world.onboard("orders")
    Pipeline.objects.update(capture="log", state="SNAPSHOTTING", load_name="first")
    place = urlparse(log_dsn)
    source = world.source
    source.host, source.port = place.hostname or "", place.port or 0
    source.database, source.username = place.path.strip("/"), place.username or ""
    source.secret = encrypt(unquote(place.password or ""))
    source.save()
    environment = {
        **sluice_environment,
        "SLUICE_LAKE_URI": settings.SLUICE_LAKE_URI,
        "SLUICE_LEASE_SECONDS": LEASE_SECONDS,
    }
    with psycopg.connect(log_dsn, autocommit=True) as link:
        link.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, name text,"
            " updated_at timestamptz NOT NULL)"
        )
        found = Followed(world, link, environment, tmp_path)
        try:
            yield found
        finally:
            found.close()


def is_following(row: SourceFollower) -> bool:
    return row.observed == "following" and row.pid is not None


def test_changes_arrive_and_a_killed_follower_goes_on(followed: Followed) -> None:
    home = followed.start_host()
    before = followed.until(is_following)
    followed.insert()
    followed.until_all_is_there()
    row = followed.until(lambda r: r.rows == 10 and r.log_kept > 0)
    assert row.position.startswith("lsn:")
    assert row.committed_at is not None
    note = read_identity(home / "run" / f"follower-{followed.world.source.pk}.pid.json")
    assert note is not None
    assert note.pid == row.pid
    assert_no_secret_is_where_others_see_it(followed, psutil.Process(row.pid), home)
    psutil.Process(before.pid).kill()
    followed.insert()
    followed.until(lambda r: is_following(r) and r.pid != before.pid)
    followed.until_all_is_there()


def assert_no_secret_is_where_others_see_it(
    followed: Followed, follower: psutil.Process, home: Path
) -> None:
    password = unquote(urlparse(followed.link.info.dsn).password or "")
    password = password or followed.link.info.password
    assert password
    shown = [*follower.cmdline(), *follower.environ().values()]
    logs = [path.read_text() for path in (home / "logs").iterdir()]
    notes = [path.read_text() for path in (home / "run").iterdir() if path.is_file()]
    assert password not in " ".join([*shown, *logs, *notes])
    assert not [name for name in follower.environ() if name.startswith("SLUICE_")]


@pytest.mark.long
def test_another_host_takes_over_from_one_that_was_killed(followed: Followed) -> None:
    followed.start_host()
    before = followed.until(is_following)
    followed.start_host()
    follower = family(before.pid)
    followed.insert()
    followed.hosts[0].kill()
    followed.hosts[0].wait()
    wait_until_gone(follower)
    followed.insert()
    row = followed.until(lambda r: is_following(r) and r.host != before.host)
    assert "home1" in row.host
    followed.until_all_is_there()


def test_two_readers_at_once_write_nothing_twice(followed: Followed) -> None:
    """The first host is stopped past its lease, then goes on."""
    followed.start_host()
    before = followed.until(is_following)
    follower = family(before.pid)
    followed.start_host()
    host = psutil.Process(followed.hosts[0].pid)
    host.suspend()
    followed.insert()
    Lease.objects.filter(name__startswith="follower:").update(expires_at=Now())
    followed.until(lambda r: is_following(r) and r.host != before.host)
    followed.insert()
    host.resume()
    wait_until_gone(follower)
    followed.insert()
    followed.until_all_is_there()
    assert "home1" in followed.until(is_following).host


def test_reading_goes_on_while_the_metadata_database_is_away(
    followed: Followed, metadata_pg: EmbeddedPostgres
) -> None:
    del followed.environment["SLUICE_LEASE_SECONDS"]  # no lease ends in this test
    followed.start_host()
    before = followed.until(is_following)
    followed.insert()
    followed.until_all_is_there()
    with database_away(metadata_pg):
        for _ in range(3):
            followed.insert()
            followed.until_all_is_there()
    row = followed.until(lambda r: is_following(r) and r.rows == followed.inserted)
    assert row.pid == before.pid


@contextmanager
def database_away(server: EmbeddedPostgres) -> Iterator[None]:
    """Who is connected is thrown out, and nobody gets in."""
    name = str(connection.settings_dict["NAME"])
    connection.close()
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(server.address.url("postgres"), autocommit=True) as link:
        link.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        try:
            link.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s",
                [name],
            )
            yield
        finally:
            link.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


@pytest.mark.long
def test_with_the_last_table_the_slot_goes_and_later_ones_begin_anew(
    followed: Followed,
) -> None:
    followed.start_host()
    followed.until(is_following)
    followed.insert()
    followed.until_all_is_there()
    Pipeline.objects.update(state="RETIRED")
    wait_for(lambda: not SourceFollower.objects.exists(), followed.told, pause=0.1)
    for left in (
        "pg_replication_slots WHERE slot_name",
        "pg_publication WHERE pubname",
    ):
        found = followed.link.execute(f"SELECT 1 FROM {left} LIKE 'sluice_%'")
        assert found.fetchall() == []
    assert followed.in_stream() == 0, "its segments went"
    followed.link.execute("TRUNCATE orders")
    followed.inserted = 0
    Pipeline.objects.update(state="SNAPSHOTTING", load_name="second")
    followed.until(is_following)
    followed.insert()
    followed.until_all_is_there()


@pytest.mark.long
def test_a_slot_of_a_stopped_reader_goes_with_the_last_table_too(
    followed: Followed,
) -> None:
    followed.start_host()
    followed.until(is_following)
    stop_capture(followed.world.source)
    followed.until(lambda r: r.observed == "stopped")
    Pipeline.objects.update(state="RETIRED")
    wait_for(lambda: not SourceFollower.objects.exists(), followed.told, pause=0.1)
    slots = "SELECT 1 FROM pg_replication_slots WHERE slot_name LIKE 'sluice_%'"
    assert followed.link.execute(slots).fetchall() == []
