"""A table whose writers share a lock in ZooKeeper, a real one out of Spark's own jars."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.toolchain.paths import pyspark_home, spark_jars
from ingest.contract.job import CompactWork, JobReport, JobSpec
from ingest.driver.apply import writer
from ingest.lake.commits import read_timeline
from ingest.lake.fence import fence_path, raise_fence
from ingest.lake.hudi.identity import SHARED_LOCK_PROVIDER
from ingest.lake.place import place_at
from tests.ports import free_port
from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_stalled_sync import unfinished
from tests.waiting import LIMIT_SECONDS, wait_for

SERVER = "org.apache.zookeeper.server.ZooKeeperServerMain"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with started(tmp_path_factory.mktemp("zookeeper")) as (hosts, _):
        yield hosts


@contextlib.contextmanager
def started(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    (folder / "conf").write_text(
        f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\ntickTime=500\n4lw.commands.whitelist=dump\n"
    )
    java = shutil.which("java") or "java"
    jars = str(pyspark_home() / "jars" / "*")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [java, "-Xmx64m", "-cp", jars, SERVER, str(folder / "conf")],
            stdout=log,
            stderr=log,
        )
    _wait_for(port, server, folder / "log")
    yield f"127.0.0.1:{port}", server
    server.kill()
    server.wait(LIMIT_SECONDS)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False

    wait_for(answers, log.read_text)


def contenders(hosts: str) -> int:
    """How many hold or want the lock: each has a node that goes with its session."""
    host, port = hosts.split(":")
    with socket.create_connection((host, int(port))) as link:
        link.sendall(b"dump")
        answer = b"".join(iter(lambda: link.recv(65_536), b"")).decode()
    return answer.count("/sluice/table-")


def provider(bench: LakeBench, table: Any, hosts: str, *, token: int) -> Any:
    """The lock as a writer in another driver takes it."""
    jvm = bench.spark._jvm
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    for name, value in {
        "hoodie.write.lock.zookeeper.url": hosts,
        "hoodie.write.lock.zookeeper.base_path": "/sluice",
        "hoodie.write.lock.zookeeper.lock_key": f"table-{table.table_id}",
        "hoodie.write.lock.sluice.token": str(token),
        "hoodie.write.lock.sluice.fence": fence_path(bench.lake, table.table_id).uri,
    }.items():
        properties.setProperty(name, value)
    storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
        bench.spark.sparkContext._jsc.hadoopConfiguration()
    )
    lock = jvm.org.apache.hudi.common.config.LockConfiguration(properties)
    return jvm.io.sluice.lake.SharedFencedLockProvider(lock, storage)


def error_of(report: JobReport) -> str:
    return report.error.code if report.error else ""


def test_writers_of_several_drivers_wait_for_each_other(
    lake_bench: LakeBench, zookeeper: str
) -> None:
    bench, service = lake_bench, f"{zookeeper}/sluice"
    bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now());"
        "INSERT INTO o SELECT g, 'load', now() - interval '1 day'"
        " FROM generate_series(1, 5) g"
    )
    table = bench.table("o", cursor="at", lock="zookeeper")
    assert error_of(bench.load(table)) == "lock_service_unset"
    low = assert_done(bench.load(table, lock_service=service)).facts["bound"]
    position = bench.state(table).position
    assert position is not None
    assert position.identity.lock_provider == SHARED_LOCK_PROVIDER

    bench.sql("UPDATE o SET v = 'new', at = now() WHERE id = 1")
    seconds = bench.spark._jvm.java.util.concurrent.TimeUnit.SECONDS
    other = provider(bench, table, zookeeper, token=1)
    reports: list[JobReport] = []

    def write() -> None:
        reports.append(bench.sync(table, low, lock_service=service))

    try:
        assert other.tryLock(20, seconds)
        waiting = threading.Thread(target=write)
        waiting.start()
        wait_for(lambda: contenders(zookeeper) == 2 or reports, "the writer to queue")
        assert reports == [], "it did not wait for the other driver's lock"
        assert len(bench.state(table).timeline.completed_writes) == 1
        other.unlock()
        waiting.join(LIMIT_SECONDS)
        assert_done(reports[0])
        assert_done(bench.compact(table, lock_service=service))
        assert bench.rows(table, "id", "v")[0] == (1, "new")

        plain = bench.sync_spec(table, low)
        plain = bench.spec("sync", replace(table, lock=""), sync=plain.sync)
        assert error_of(bench.run(plain)) == "identity_drift"

        raise_fence(fence_path(bench.lake, table.table_id), 2)
        with pytest.raises(Exception, match=r"sluice\.fenced"):
            other.tryLock(20, seconds)
    finally:
        other.close()


@pytest.mark.long
def test_a_lock_that_cannot_be_given_back_fails_no_job(
    lake_bench: LakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its service dies while a small commit is completed: the rows are there."""
    bench = lake_bench
    bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now());"
        "INSERT INTO o SELECT g, 'load', now() - interval '1 day'"
        " FROM generate_series(1, 5) g"
    )
    table = bench.table("o", cursor="at", lock="zookeeper")
    real = writer.write_options
    soon = {
        "hoodie.write.lock.wait_time_ms_between_retry": "10",
        "hoodie.write.lock.num_retries": "1",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": "1000",
    }
    monkeypatch.setattr(writer, "write_options", lambda *a, **k: real(*a, **k) | soon)
    with started(tmp_path) as (hosts, server):
        service = f"{hosts}/sluice"
        low = assert_done(bench.load(table, lock_service=service)).facts["bound"]
        bench.sql("UPDATE o SET v = 'new', at = now() WHERE id = 1")
        # no plan and no tidying behind it, which would want the lock once more
        spec = bench.sync_spec(table, low, lock_service=service, compact_after=99)
        fence = HeldFence(spec.fence.path, 1)
        reports: list[JobReport] = []
        sync = threading.Thread(target=lambda: reports.append(bench.run(spec)))
        sync.start()
        fence.hold_at(lambda: bool(unfinished(table)), "its commit")
        fence.put_back()
        server.kill()
        server.wait(LIMIT_SECONDS)
        fence.answer()
        sync.join(LIMIT_SECONDS)
    facts = assert_done(reports[0]).facts
    assert facts["instant"] == bench.state(table).commits[0].instant.asked
    assert bench.rows(table, "id", "v")[0] == (1, "new")


class Writers:
    """Syncs and compactions of one table, each as a job of its own."""

    def __init__(self, bench: LakeBench, table: Any, service: str) -> None:
        self.bench, self.table, self.service = bench, table, service
        self.low = assert_done(bench.load(table, lock_service=service)).facts["bound"]
        self.syncs = 0

    def sync(self) -> None:
        self.syncs += 1
        n = self.syncs
        self.bench.sql(f"UPDATE o SET v = {n}, at = now() WHERE id <= {n}")
        report = self.bench.sync(self.table, self.low, lock_service=self.service)
        self.low = assert_done(report).facts["position"]["to"]

    def compaction(self, token: int = 1) -> JobSpec:
        pending = self.bench.state(self.table).pending_compactions
        return self.bench.spec(
            "compact",
            self.table,
            token=token,
            compact=CompactWork(tuple(pending)),
            lock_service=self.service,
        )


@pytest.mark.long
def test_a_compactor_in_another_driver_is_killed_and_ingest_goes_on(
    lake_bench: LakeBench, zookeeper: str, tmp_path: Path
) -> None:
    """It compacts once beside syncs of this driver, then dies within a plan, with the
    lock in its hand: ZooKeeper gives that to the next one."""
    bench = lake_bench
    bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v int, at timestamptz DEFAULT now());"
        "INSERT INTO o SELECT g, 0, now() - interval '1 day'"
        " FROM generate_series(1, 50) g"
    )
    table = bench.table("o", cursor="at", lock="zookeeper")
    writers = Writers(bench, table, f"{zookeeper}/sluice")
    writers.sync()
    jars = ":".join(str(path) for path in spark_jars())
    other = DriverProcess(jars, tmp_path / "other", bench.password)
    try:
        other.wait_for(lambda m: m["type"] == "ready")
        first = writers.compaction()
        other.run(first)
        # one lock for both: neither writes over the other, none is refused
        while not any(m["type"] == "report" for m in other.heard):
            writers.sync()
        assert_done(other.report(first))
        assert writers.syncs > 1
        writers.sync()
        second = writers.compaction()
        fence = HeldFence(second.fence.path, second.fence.token)
        other.run(second)
        fence.hold_at(lambda: _is_inflight(table), "the compaction to be inflight")
    finally:
        other.end()
    fence.put_back()
    writers.sync()
    assert bench.state(table).timeline.pending_compactions

    bench.take_over(table, 2, "service")

    def end() -> JobReport | None:
        # Hudi believes the dead one's last heartbeat for some seconds
        report = bench.run(writers.compaction(token=2))
        return report if report.outcome != "transient" else None

    assert_done(wait_for(end, "the compaction to be free", pause=2))
    writers.sync()
    assert not bench.state(table).timeline.pending_compactions
    assert bench.rows(table, "id", "v") == bench.sql("SELECT id, v FROM o ORDER BY id")


def _is_inflight(table: Any) -> bool:
    found = read_timeline(place_at(table.path)).pending_compactions
    return any(one.state == "INFLIGHT" for one in found)
