"""Keys that a source takes for one and the lake for several; what replicas say."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.sources.mariadb.clusters import Membership, membership_of
from catalog.sources.mariadb.replicas import ReplicaStatus, replica_of
from catalog.sources.mariadb.types import key_forms as mariadb_forms
from catalog.sources.postgresql.types import key_forms as postgresql_forms


@pytest.mark.parametrize(
    ("source_type", "is_nondeterministic", "part"),
    [
        ("text", False, ""),
        ("text", True, "collation"),
        ("public.citext", False, "upper and lower case"),
        ("citext", False, "upper and lower case"),
        ("numeric", False, "1.00"),
        ("numeric(12,2)", False, ""),
        ("double precision", False, "-0"),
        ("interval", False, "24 hours"),
        ("jsonb", False, "1.00"),
        ("uuid", False, ""),
        ("bigint", False, ""),
    ],
)
def test_postgresql(source_type: str, is_nondeterministic: bool, part: str) -> None:
    found = postgresql_forms(source_type, is_nondeterministic=is_nondeterministic)
    assert part in found
    assert bool(found) == bool(part)


@pytest.mark.parametrize(
    ("source_type", "collation", "forms"),
    [
        ("int(11)", None, ""),
        ("double", None, "0 and -0"),
        ("varbinary(9)", None, ""),
        ("varchar(9)", "utf8mb4_general_ci", "upper and lower case, accents, spaces at the end"),
        ("char(9)", "utf8mb4_general_ci", "upper and lower case, accents"),
        ("varchar(9)", "utf8mb4_bin", "spaces at the end"),
        ("varchar(9)", "utf8mb4_nopad_bin", ""),
        ("varchar(9)", "utf8mb4_0900_ai_ci", "upper and lower case, accents"),
        ("char(9)", "latin1_bin", ""),
        ("enum('a','b')", "utf8mb4_general_ci", "upper and lower case, accents"),
        ("longtext", "utf8mb4_bin", "spaces at the end"),
    ],
)  # fmt: skip
def test_mariadb(source_type: str, collation: str | None, forms: str) -> None:
    assert mariadb_forms(source_type, collation) == forms


RUNNING = {"Slave_IO_Running": "Yes", "Slave_SQL_Running": "Yes"}


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], None),
        ([{**RUNNING, "Seconds_Behind_Master": 7}], ReplicaStatus(7)),
        (
            [{"Replica_IO_Running": "Yes", "Seconds_Behind_Source": "3"}],
            ReplicaStatus(3),
        ),
        # the furthest of several counts, and one that stands still says nothing
        ([{**RUNNING, "Seconds_Behind_Master": n} for n in (0, 9)], ReplicaStatus(9)),
        (
            [
                {**RUNNING, "Seconds_Behind_Master": 0},
                {**RUNNING, "Seconds_Behind_Master": None},
            ],
            ReplicaStatus(None),
        ),
        # connections between members of a group say nothing of a primary
        ([{**RUNNING, "Channel_Name": "group_replication_recovery"}], None),
        # it has applied all that it received, and receives nothing more
        (
            [{"Slave_IO_Running": "Connecting", "Seconds_Behind_Master": 0}],
            ReplicaStatus(None),
        ),
    ],
)
def test_a_replica_says_how_far_it_is(rows, status) -> None:
    assert replica_of(rows) == status


A, B = "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a", "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"


@pytest.mark.parametrize(
    ("connections", "follows_replica"),
    [
        ([{"Master_Server_Id": 1, "Gtid_Slave_Pos": "0-1-42"}], False),
        ([{"Master_Server_Id": 2, "Gtid_Slave_Pos": "0-1-42"}], True),
        ([{"Master_Server_Id": 1, "Gtid_Slave_Pos": "0-1-42,7-3-9"}], True),
        # nothing was applied yet, or it was never connected
        ([{"Master_Server_Id": 1, "Gtid_Slave_Pos": ""}], False),
        ([{"Master_Server_Id": 1}], False),
        # of several primaries each has a domain, and each connection tells of all
        (
            [{"Master_Server_Id": n, "Gtid_Slave_Pos": "1-1-42,2-2-9"} for n in (1, 2)],
            False,
        ),
        ([{"Master_UUID": A, "Retrieved_Gtid_Set": f"{A}:1-5:7"}], False),
        ([{"Source_UUID": A, "Retrieved_Gtid_Set": f"{A}:1-5,\n{B}:1-2"}], True),
        ([{"Source_UUID": A, "Retrieved_Gtid_Set": ""}], False),
    ],
)
def test_where_the_changes_of_a_replica_come_from(
    connections, follows_replica: bool
) -> None:
    found = replica_of([{**RUNNING, **one} for one in connections])
    assert found is not None
    assert found.follows_replica is follows_replica


ON, OFF = Membership(is_synced=True), Membership(is_synced=False)


@pytest.mark.parametrize(
    ("galera", "group", "members", "found"),
    [
        # Galera: not loaded, alone, in touch, cut off, behind
        (("0", "Disconnected", "0"), "", [], None),
        (("1", "Primary", "4"), "", [], None),
        (("3", "Primary", "4"), "", [], ON),
        (("1", "non-Primary", "0"), "", [], OFF),
        (("3", "Primary", "2"), "", [], OFF),
        # MySQL does not know those names
        ((), "", [], None),
        ((), "g", [("ONLINE", 1)], None),
        ((), "g", [("ONLINE", 1), ("ONLINE", 0), ("UNREACHABLE", 0)], ON),
        ((), "g", [("ONLINE", 1), ("UNREACHABLE", 0)], OFF),
        ((), "g", [("RECOVERING", 1), ("ONLINE", 0)], OFF),
        # it has left its group; the login may not ask
        ((), "g", [("OFFLINE", 1)], OFF),
        ((), "g", None, OFF),
    ],
)
def test_whether_others_commit_too(galera, group: str, members, found) -> None:
    names = ("wsrep_cluster_size", "wsrep_cluster_status", "wsrep_local_state")

    def rows(sql: str) -> list[tuple[Any, ...]]:
        if "wsrep" in sql:
            return list(zip(names, galera, strict=False))
        if "VARIABLES" in sql:
            return [("group_replication_group_name", group)] if not galera else []
        if "information_schema" in sql:
            return [] if members is None else [(1,)]
        assert members is not None, "forbidden"
        return members

    assert membership_of(rows) == found
