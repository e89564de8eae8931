"""Jobs on a real standalone cluster: submitted one by one, and through a warm driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.supervisor import doctor
from ingest.contract.job import (
    JobReport,
    JobSpec,
    SnapshotWork,
    report_from,
)
from ingest.driver_host.cluster import StandaloneMaster, instance_of, tag_of
from ingest.driver_host.commands import driver_command, place_of, submit_command
from ingest.driver_host.launcher import Launcher, Message, mark_of
from ingest.driver_host.submit import SubmitLauncher
from ingest.driver_host.warm import WarmLauncher
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


def submitted(home: Path, cluster: StandaloneCluster) -> SubmitLauncher:
    launcher = SubmitLauncher(submit_command(home), master_of(home, cluster))
    launcher.start("boot")
    return launcher


@pytest.mark.long(together="cluster")
def test_a_submitted_job_runs_on_the_cluster_and_its_secret_is_nowhere(
    home: Path, cluster: StandaloneCluster, bench: LakeBench
) -> None:
    talk = Talk(submitted(home, cluster), bench)
    talk.until("ready")
    wait_until(lambda: doctor.cluster()[0].is_ok, "the worker does not come up")
    spec = quick_load(bench, "quick")
    talk.launcher.submit(spec, isolated=True)
    assert assert_done(talk.report(spec)).facts["rows"] == 500
    talk.until("died", lambda m: m.origin == spec.job_id)
    assert bench.state(spec.table).commits[0].rows_written == 500
    # its work was done by executors of the cluster, under its tag
    worked = list((cluster.folder / "work").glob("app-*/*/stderr"))
    assert worked
    said = [path.read_text() for path in worked]
    said.append((home / "logs" / "driver.log").read_text())
    assert not [text for text in said if bench.password in text or SECRET in text]
    talk.launcher.stop()
    assert not list((home / "run" / "submitted").iterdir())


def words_of(pid: int) -> list[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


@pytest.mark.long(together="cluster")
def test_a_submitted_job_outlives_its_host_and_dies_when_the_master_says_so(
    home: Path, cluster: StandaloneCluster, bench: LakeBench
) -> None:
    first = submitted(home, cluster)
    spec = slow_load(bench, "outlived")
    tag = tag_of(instance_of(place_of(home)), spec.job_id, "1")
    first.submit(spec, isolated=True)
    Talk(first, bench).works(spec, "reading")
    # what a killed JVM unpacked goes with the folder of its job
    scratch = home / "tmp" / "driver" / tag
    assert any(
        f"-Djava.io.tmpdir={scratch}" in words_of(pid) for pid in mark_of(tag).pids()
    )
    first._stopping.set()  # killed: its threads and its door are gone, all else stays
    assert first._door is not None
    first._door.close()
    first._works[spec.job_id].connection.close()  # type: ignore[union-attr]

    second = SubmitLauncher(submit_command(home), master_of(home, cluster))
    assert [one.job_id for one in second.survivors()] == [spec.job_id]
    second.start("next")
    talk = Talk(second, bench)
    talk.until("accepted", lambda m: m.data["job_id"] == spec.job_id)
    talk.works(spec, "reading")
    assert [app.tag for app in master_of(home, cluster).apps()] == [tag]
    cluster.kill_master()
    mark_of(tag).kill()
    why = talk.until("unreachable", lambda m: m.origin == spec.job_id).data["why"]
    assert "does not answer" in why
    assert not [m for m in talk.heard if m.kind == "died"]
    cluster.start_master()
    talk.until("died", lambda m: m.origin == spec.job_id)
    assert mark_of(tag).pids() == []
    wait_until(lambda: not scratch.exists(), "its folder is still there")
    second.stop()


@pytest.mark.long(together="cluster")
def test_a_warm_driver_works_on_the_cluster(
    home: Path, cluster: StandaloneCluster, bench: LakeBench
) -> None:
    master = master_of(home, cluster)
    launcher = WarmLauncher(driver_command(home), master)
    launcher.start("boot")
    talk = Talk(launcher, bench)
    talk.until("ready")
    spec = quick_load(bench, "warm")
    launcher.submit(spec, isolated=False)
    assert_done(talk.report(spec))
    bench.sql("INSERT INTO warm SELECT g FROM generate_series(501, 510) g")
    bound = assert_done(talk.report(spec)).facts["bound"]
    sync_spec = bench.sync_spec(spec.table, bound)
    launcher.submit(sync_spec, isolated=False)
    assert assert_done(talk.report(sync_spec)).facts["rows"] >= 10
    tag = tag_of(instance_of(place_of(home)), "", "boot")
    assert [app.tag for app in master.apps()] == [tag]
    launcher.stop()
    wait_until(lambda: not master.apps(), "its application is still there")
