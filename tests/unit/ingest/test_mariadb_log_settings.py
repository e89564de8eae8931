"""What MariaDB's settings and rights lack for its log to be followed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.sources.mariadb.log import (
    LogServer,
    doubts_of,
    lacks_of,
    read_server,
    unfit,
)

SETTINGS = {
    "version": "10.11.19-MariaDB-log",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}
SERVER = LogServer(SETTINGS, frozenset({"REPLICATION SLAVE"}))


@pytest.mark.parametrize(
    ("server", "words", "mends"),
    [
        (SERVER, [], []),
        (replace(SERVER, rights=frozenset({"ALL PRIVILEGES"})), [], []),
        (
            replace(SERVER, settings={**SETTINGS, "log_bin": "OFF"}),
            ["no binary log"],
            ["log_bin"],
        ),
        (
            replace(
                SERVER,
                settings={
                    **SETTINGS, "binlog_format": "MIXED",
                    "binlog_row_metadata": "NO_LOG",
                },
            ),
            ["binlog_format is 'MIXED'", "binlog_row_metadata is 'NO_LOG'"],
            ["SET GLOBAL binlog_format = 'ROW'", "binlog_row_metadata = 'FULL'"],
        ),
        (
            replace(
                SERVER,
                settings={**SETTINGS, "log_bin": "OFF", "binlog_format": "MIXED"},
            ),
            ["no binary log", "binlog_format is 'MIXED'"],
            ["log_bin", "SET GLOBAL binlog_format = 'ROW'"],
        ),
        (
            replace(SERVER, settings={**SETTINGS, "version": "8.4.2"}),
            ["MySQL is not followed yet"],
            [""],
        ),
        (
            replace(SERVER, rights=frozenset({"SELECT"}), may_look=False),
            ["may not receive", "may not ask where"],
            ["GRANT REPLICATION SLAVE ON *.* TO x", "GRANT BINLOG MONITOR"],
        ),
        (replace(SERVER, is_member=True), ["members of a cluster"], [""]),
        (
            replace(SERVER, is_replica=True),
            ["lacks what it replicates"],
            ["log_slave_updates = ON"],
        ),
    ],
)  # fmt: skip
def test_what_a_server_lacks(
    server: LogServer, words: list[str], mends: list[str]
) -> None:
    found = tuple(lacks_of(server, "x"))
    assert len(found) == len(words)
    for lack, word, statement in zip(found, words, mends, strict=True):
        assert word in lack.reason
        assert statement in lack.statement
        # several are told in one line: the next one would be part of the comment
        assert "--" not in lack.statement


def test_what_a_server_says_of_itself() -> None:
    said: dict[str, list[tuple[Any, ...]]] = {
        "SHOW GLOBAL VARIABLES": [("log_bin", "ON")],
        "SHOW GRANTS": [
            ("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%` IDENTIFIED",),
            ("GRANT SELECT ON `d`.* TO `u`@`%`",),
        ],
    }

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return next((r for k, r in said.items() if sql.strip().startswith(k)), [])

    place = [("b.000001", 9, "shop,crm", "")]
    server = read_server(rows, place=place, is_replica=None)
    assert server.rights == {"REPLICATION SLAVE", "BINLOG MONITOR"}
    assert unfit(server, "shop", "InnoDB") == ""
    assert "out of its log" in unfit(server, "other", "InnoDB")
    assert "Aria" in unfit(server, "shop", "Aria")


def test_what_may_end_following_it_is_said_with_who_may_bring_it_about() -> None:
    (changers,) = doubts_of({"sync_binlog": "1"}, ["'root'@'localhost'"])
    assert "'root'@'localhost'" in changers
    assert "BINLOG ADMIN" in changers
    unsafe = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}
    _, end, behind = doubts_of(unsafe, [])
    assert "SET GLOBAL sync_binlog = 1" in end
    assert "once the server dies" in behind
