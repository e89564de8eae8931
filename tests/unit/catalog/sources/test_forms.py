"""Keys that a source takes for one and the lake for several; what replicas say."""

from __future__ import annotations

import pytest

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
        # it has applied all that it received, and receives nothing more
        (
            [{"Slave_IO_Running": "Connecting", "Seconds_Behind_Master": 0}],
            ReplicaStatus(None),
        ),
    ],
)
def test_a_replica_says_how_far_it_is(rows, status) -> None:
    assert replica_of(rows) == status
