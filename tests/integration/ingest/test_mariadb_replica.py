"""A real replica of MariaDB is known as one, whatever it says of itself."""

from __future__ import annotations

import pytest

from core.errors import InvalidRequest, TransientError
from ingest.capture.cursor import read_bound
from ingest.sources.registry import open_source
from tests.integration.ingest.bound_runs import LAG, run_of, table_of
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at


def test_a_replica_of_mariadb_is_known_without_read_only(
    mariadb_server: MariaDbServer,
) -> None:
    mariadb_server.create_database("mirrored")
    mariadb_server.create_user("copy", "c", ["REPLICATION SLAVE ON *.*"])
    table = table_of("mirrored", "timestamp(6)")
    replica = MariaDbServer(["--server-id=2"])
    try:
        replica.start()
        access = mariadb_at(replica)
        with open_source(access) as source:
            assert source.clock().replica is None
            replica.run(
                f"CHANGE MASTER TO MASTER_HOST = '{mariadb_server.host}', MASTER_PORT ="
                f" {mariadb_server.port}, MASTER_USER = 'copy', MASTER_PASSWORD = 'c',"
                " MASTER_USE_GTID = no",
            )
            stopped = run_of(access.spec, table, chosen=True)
            with pytest.raises(TransientError) as waits:
                read_bound(stopped, source, lag_seconds=LAG, low=None)
            assert waits.value.code == "replication_stopped"
            with pytest.raises(InvalidRequest) as refused:
                read_bound(
                    run_of(access.spec, table, chosen=False),
                    source,
                    lag_seconds=5,
                    low=None,
                )
            assert refused.value.code == "standby_without_lag"
        replica.create_user("weak", "w", ["SELECT ON *.*"])
        replica.run("SET GLOBAL read_only = 1")
        with open_source(mariadb_at(replica, "weak", "w")) as source:
            clock = source.clock()
            assert clock.replica is not None
            assert not clock.replica.may_ask
            assert clock.complete_until == clock.now
    finally:
        replica.destroy()
