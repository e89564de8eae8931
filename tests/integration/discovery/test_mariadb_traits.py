"""What discovery learns of MariaDB besides columns: former versions of rows, what keys
compare, and whether the server repeats another one."""

from __future__ import annotations

from contextlib import closing

import pytest

from catalog.sources.mariadb.discover import MariadbReader
from catalog.sources.mariadb.log import UNREAD
from ingest.sources.mariadb.log.charsets import is_read
from tests.integration.discovery.support import READER

pytestmark = pytest.mark.django_db


def test_tables_and_keys_of_mariadb(maria) -> None:
    maria.run(
        "CREATE TABLE v (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE TABLE k (a VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9)"
        " COLLATE utf8mb4_nopad_bin, c INT, d TEXT, PRIMARY KEY (a, b, c))",
    )
    with MariadbReader(maria.access()) as reader:
        versioned, keyed = (reader.table("shop", name) for name in ("v", "k"))
    assert versioned is not None
    assert keyed is not None
    assert (versioned.traits, keyed.traits) == ({"versioned"}, frozenset())
    assert set(keyed.key_forms) == {"a"}
    assert "spaces" in keyed.key_forms["a"]


def test_whether_a_mariadb_is_a_replica_is_known_with_the_right_to_ask(maria) -> None:
    with MariadbReader(maria.access()) as reader:
        assert reader.overview().is_standby is None
    maria.run(f"GRANT SLAVE MONITOR ON *.* TO '{READER}'@'%'")
    with MariadbReader(maria.access()) as reader:
        assert reader.overview().is_standby is False
    maria.run(
        "CHANGE MASTER 'up' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1,"
        " MASTER_USER = 'nobody'"
    )
    try:
        with MariadbReader(maria.access()) as reader:
            assert reader.overview().is_standby is True, "not read-only, and a replica"
    finally:
        maria.run("RESET SLAVE 'up' ALL")


def test_whether_the_log_has_all_that_happens_to_a_table(maria) -> None:
    maria.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
    )
    with MariadbReader(maria.access()) as reader:
        found, odd = (reader.table("shop", name) for name in ("t", "m"))
    assert found is not None
    assert odd is not None
    assert found.log is not None
    assert odd.log is not None
    assert (found.log.is_full, found.log.is_published) == (True, True)
    assert (found.log.identity, found.log.unfit) == (("id", "v"), "")
    assert "MyISAM" in odd.log.unfit


def test_texts_that_are_not_read_from_the_log_are_known_before(maria) -> None:
    maria.run("CREATE TABLE t (id INT PRIMARY KEY, a TEXT CHARSET swe7, b TEXT)")
    with MariadbReader(maria.access()) as reader:
        found = reader.table("shop", "t")
    assert found is not None
    assert found.log is not None
    assert (found.log.unread, found.log.identity) == (("a",), ("id", "a", "b"))
    with closing(maria.server.connect()) as link, link.cursor() as cursor:
        cursor.execute(
            "SELECT character_set_name FROM information_schema.character_sets"
        )
        names = cursor.fetchall()
    known = {name for (name,) in names} - {"binary"}
    assert {name for name in known if not is_read(name)} == UNREAD
