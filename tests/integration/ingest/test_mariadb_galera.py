"""A member of a real Galera cluster is no plain primary."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.sources.mariadb.clusters import Membership, membership_of
from config.toolchain.checks import GALERA
from core.errors import InvalidRequest
from ingest.driver.capture.reading import read_bound
from ingest.sources.registry import open_source
from tests.integration.ingest.bound_runs import run_of
from tests.integration.ingest.test_mariadb_replica import TABLE, started
from tests.ports import free_port
from tests.source_access import mariadb_at
from tests.waiting import wait_for

__all__ = ["started"]


@pytest.mark.long
def test_a_member_of_galera_is_followed_with_a_chosen_lag_only(
    started: Any,
) -> None:
    def member(number: int, port: int, others: str, password: str = "") -> Any:
        return started(
            *(f"--server-id={number}", "--wsrep-on=ON", f"--wsrep-provider={GALERA}"),
            *("--innodb-autoinc-lock-mode=2", "--wsrep-sst-method=skip"),
            *("--wsrep-cluster-name=t", f"--wsrep-cluster-address=gcomm://{others}"),
            f"--wsrep-node-address=127.0.0.1:{port}",
            f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port}"
            f";ist.recv_addr=127.0.0.1:{free_port()};gcache.size=1M",
            password=password,
        )

    port = free_port()
    first = member(1, port, "")
    with open_source(mariadb_at(first)) as source:
        assert source.clock().replica is None, "alone"
    member(2, free_port(), f"127.0.0.1:{port}", first.password)
    access = mariadb_at(first)
    with open_source(access) as source:
        wait_for(
            lambda: membership_of(source.rows) == Membership(is_synced=True),
            "the cluster",
        )
        unchosen = run_of(access.spec, TABLE, chosen=False)
        with pytest.raises(InvalidRequest) as refused:
            read_bound(unchosen, source, lag_seconds=5, low=None)
        assert refused.value.code == "standby_without_lag"
        assert "lag_seconds" in (refused.value.hint or "")
        clock = source.clock()
        assert clock.complete_until < clock.now
