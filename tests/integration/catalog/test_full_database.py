"""The disk of the metadata database is full. Left out where nobody may mount one."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from catalog.api.problems import problem_of
from config.embedded import EmbeddedPostgres
from tests.small_disk import small_disk


@pytest.fixture
def small(metadata_pg: EmbeddedPostgres, transactional_db: None) -> Iterator[None]:
    """A tablespace of 1 MB."""
    assert metadata_pg.user is not None, "who may mount is root"
    owner = pwd.getpwnam(metadata_pg.user)
    with small_disk(Path(metadata_pg.store) / "small", "1m") as disk:
        os.chown(disk.path, owner.pw_uid, owner.pw_gid)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
            cursor.execute("CREATE TABLE big (v text) TABLESPACE small")
            yield
            cursor.execute("DROP TABLE big")
            cursor.execute("DROP TABLESPACE small")


@pytest.mark.usefixtures("small")
def test_a_full_database_is_told_as_such() -> None:
    fill = "INSERT INTO big SELECT md5(g::text) FROM generate_series(1, 100000) g"
    with connection.cursor() as cursor:
        with pytest.raises(OperationalError) as met:
            cursor.execute(fill)
        body, headers = problem_of(met.value)
        assert (body["status"], body["code"]) == (503, "database_full")
        assert "nothing was changed" in str(body["detail"])
        assert headers["Retry-After"]
        cursor.execute("SELECT count(*) FROM big")
        assert cursor.fetchone() == (0,)
