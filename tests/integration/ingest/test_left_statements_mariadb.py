"""What a killed engine leaves at a live source on MariaDB, which does not look for its
clients."""

from __future__ import annotations

import threading
from typing import Any

import pymysql

from ingest.sources.mariadb.connection import end_live
from tests.source_access import mariadb_at
from tests.waiting import wait_for

STATE = "SELECT info FROM information_schema.processlist WHERE state = 'User sleep'"


def test_statements_are_ended_by_their_mark(mariadb_server: Any) -> None:
    failed: list[str] = []

    def run(mark: str) -> None:
        with mariadb_server.connect("information_schema") as link:
            try:
                link.cursor().execute(
                    f"SELECT /* {mark} */ 1 FROM dual WHERE sleep(600)"
                )
            except pymysql.MySQLError:
                failed.append(mark)

    marks = ("sluice:sql:dead", "sluice:sql:other")
    threads = [threading.Thread(target=run, args=[mark]) for mark in marks]
    for thread in threads:
        thread.start()
    with mariadb_server.connect("information_schema") as link, link.cursor() as cursor:

        def asleep(count: int) -> bool | None:
            cursor.execute(STATE)
            return len(cursor.fetchall()) == count or None

        wait_for(lambda: asleep(2), "both to sleep")
        end_live(mariadb_at(mariadb_server, application=marks[0]))
        threads[0].join()
        assert failed == [marks[0]]
        assert asleep(1)
        end_live(mariadb_at(mariadb_server, application=marks[1]))
        threads[1].join()
