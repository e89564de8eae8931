"""Jobs on a real standalone cluster, through a warm driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.supervisor import doctor
from ingest.contract.job import JobReport, JobSpec, SnapshotWork, report_from
from ingest.driver_host.cluster import StandaloneMaster, instance_of, tag_of
from ingest.driver_host.commands import driver_command, launcher_for, place_of
from ingest.driver_host.launcher import Launcher, Message
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.standalone import SECRET, StandaloneCluster, wait_until
from tests.waiting import LIMIT_SECONDS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    from config.toolchain.javac import ensure_sluice_jar

    ensure_sluice_jar(lambda text: None)
    made = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.end()


@pytest.fixture
def home(tmp_path: Path, cluster: StandaloneCluster, settings: Any) -> Path:
    settings.SLUICE_SPARK_MASTER = cluster.url
    settings.SLUICE_SPARK_MASTER_UI = cluster.web
    settings.SLUICE_SPARK_SECRET = SECRET
    settings.SLUICE_DRIVER_MEMORY = "700m"
    settings.SLUICE_EXECUTOR_MEMORY = "700m"
    settings.SLUICE_LEASE_SECONDS = 40
    return tmp_path / "home"


@pytest.fixture
def bench(source_pg: Any, tmp_path: Path) -> Iterator[LakeBench]:
    made = LakeBench(None, source_pg.create_database("clustered"), tmp_path)
    yield made
    made.close()


def master_of(home: Path, cluster: StandaloneCluster) -> StandaloneMaster:
    return StandaloneMaster(cluster.web, instance=instance_of(place_of(home)))


class Talk:
    """The host's part of the talk with a launcher."""

    def __init__(self, launcher: Launcher, bench: LakeBench) -> None:
        self.launcher, self.bench = launcher, bench
        self.heard: list[Message] = []

    def until(self, what: str, is_it: Any = lambda message: True) -> Message:
        """The first message of this kind that is asked for, heard or to come."""
        end = time.monotonic() + LIMIT_SECONDS
        while True:
            for message in self.heard:
                if message.kind == what and is_it(message):
                    return message
            assert time.monotonic() < end, (what, self.heard[-5:])
            self.launcher.ping()
            for message in self.launcher.poll(0.5):
                self.heard.append(message)
                if message.kind == "secret_request":
                    answer = self.bench.answer(message.data["ref"])
                    self.launcher.give_secret(answer, origin=message.origin)

    def report(self, spec: JobSpec) -> JobReport:
        said = self.until("report", lambda m: m.data["report"]["job_id"] == spec.job_id)
        return report_from(said.data["report"])

    def works(self, spec: JobSpec, phase: str) -> Message:
        def is_it(message: Message) -> bool:
            return any(
                job["job_id"] == spec.job_id and job["phase"] == phase
                for job in message.data["jobs"]
            )

        return self.until("heartbeat", is_it)


def slow_load(bench: LakeBench, name: str) -> JobSpec:
    """A load that is read for as long as somebody lets it."""
    bench.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)")
    bench.sql(f"INSERT INTO {name} SELECT g, 'v' FROM generate_series(1, 4000) g")
    bench.sql(f"ANALYZE {name}")
    table = bench.table(name, estimated_rows=4000)
    source = replace(bench.source, max_rows_per_second=100)
    work = SnapshotWork(chunk_rows=200)
    return bench.spec("snapshot", table, source=source, snapshot=work)


def quick_load(bench: LakeBench, name: str) -> JobSpec:
    bench.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, at timestamptz DEFAULT now())")
    bench.sql(f"INSERT INTO {name} SELECT g FROM generate_series(1, 500) g")
    table = bench.table(name, cursor="at", estimated_rows=500)
    return bench.spec("snapshot", table, snapshot=SnapshotWork())


def started(home: Path, bench: LakeBench) -> Talk:
    """With the warm driver of the incarnation `boot`."""
    launcher = launcher_for(home)
    launcher.start("boot")
    talk = Talk(launcher, bench)
    talk.until("ready")
    return talk


@pytest.mark.long(together="cluster")
def test_a_warm_driver_works_on_the_cluster_and_its_secrets_are_nowhere(
    home: Path, cluster: StandaloneCluster, bench: LakeBench
) -> None:
    talk = started(home, bench)
    wait_until(lambda: doctor.cluster()[0].is_ok, "the worker does not come up")
    spec = quick_load(bench, "warm")
    talk.launcher.submit(spec, isolated=False)
    assert assert_done(talk.report(spec)).facts["rows"] == 500
    assert bench.state(spec.table).commits[0].rows_written == 500
    bench.sql("INSERT INTO warm SELECT g FROM generate_series(501, 510) g")
    bound = assert_done(talk.report(spec)).facts["bound"]
    sync_spec = bench.sync_spec(spec.table, bound)
    talk.launcher.submit(sync_spec, isolated=False)
    assert assert_done(talk.report(sync_spec)).facts["rows"] >= 10
    master = master_of(home, cluster)
    tag = tag_of(instance_of(place_of(home)), "", "boot")
    assert [app.tag for app in master.apps()] == [tag]
    # its work was done by executors of the cluster
    worked = list((cluster.folder / "work").glob("app-*/*/stderr"))
    assert worked
    said = [path.read_text() for path in worked]
    said.append((home / "logs" / "driver.log").read_text())
    assert not [text for text in said if bench.password in text or SECRET in text]
    talk.launcher.stop()
    wait_until(lambda: not master.apps(), "its application is still there")


@pytest.mark.long(together="cluster")
def test_a_driver_is_dead_when_the_master_says_so(
    home: Path, cluster: StandaloneCluster, bench: LakeBench
) -> None:
    talk = started(home, bench)
    spec = slow_load(bench, "cut_off")
    talk.launcher.submit(spec, isolated=False)
    talk.works(spec, "reading")
    cluster.kill_master()
    talk.launcher.kill()
    why = talk.until("unreachable").data["why"]
    assert "does not answer" in why
    assert not [m for m in talk.heard if m.kind == "died"]
    cluster.start_master()
    talk.until("died")
    # what a killed JVM unpacked goes with the folder of its driver
    assert not driver_command(home).scratch.joinpath("warm").exists()
    talk.launcher.stop()
