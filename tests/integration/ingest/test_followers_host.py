"""The host of followers, over a process that speaks as one: starts, ends, take-overs,
and what is written of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db.models.functions import Now
from django.utils.translation import override

from catalog.datasources import DatasourceChange, update_datasource
from catalog.secrets import encrypt
from core.models import Job, Lease
from core.translation import translated
from ingest.contract.following import FollowedTable, SourceLog
from ingest.followers_host.children import FollowerCommand
from ingest.followers_host.host import FollowersHost
from ingest.followers_host.rows import explain_loads, write_all
from ingest.models import Pipeline, SourceFollower
from tests.integration.ingest.world import World, make_source, make_tables
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db
PASSWORD = "canary-password"
Start = Callable[..., FollowersHost]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Hosts of one machine each, that look often; all of them end with the test."""
    monkeypatch.setattr("ingest.followers_host.host.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("ingest.followers_host.host.FLUSH_SECONDS", 0.1)
    hosts: list[FollowersHost] = []

    def make(act: str = "") -> FollowersHost:
        place = f"machine-{len(hosts)}"
        home = tmp_path / place
        command = FollowerCommand(
            program=[sys.executable, "-m", "tests.doubles.follower", f"--act={act}"],
            environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd())},
            logs=home / "logs",
            run=home / "run",
        )
        (home / "run").mkdir(parents=True)
        hosts.append(FollowersHost(command, place=place))
        return hosts[-1]

    yield make
    for host in hosts:
        host.stop()


@pytest.fixture
def followed(world: World) -> World:
    """Two tables of a source that shall be read from its log."""
    world.onboard("orders", "items")
    Pipeline.objects.update(capture="log", state="LIVE")
    return world


def row(world: World) -> SourceFollower:
    return SourceFollower.objects.get(datasource=world.source)


def until(host: FollowersHost, check: Callable[[], Any], *others: FollowersHost) -> Any:
    def step() -> Any:
        for each in (host, *others):
            each.step(0.02)
        return check()

    return wait_for(step, lambda: list(SourceFollower.objects.values()), pause=0)


def is_following(world: World) -> Callable[[], bool]:
    def check() -> bool:
        found = SourceFollower.objects.filter(datasource=world.source).first()
        return found is not None and found.observed == "following" and found.first > 0

    return check


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_a_source_with_log_tables_is_followed_and_its_reports_are_written(
    start: Start, followed: World
) -> None:
    host = start()
    until(host, is_following(followed))
    until(host, lambda: row(followed).rows_per_second > 0)
    found = row(followed)
    assert (found.number, found.first) == (2, len(PASSWORD))
    assert (found.log_kept, found.log_safe, found.log_behind) == (1 << 20, 1 << 30, 512)
    assert (found.waiting_bytes, found.host) == (4096, "machine-0")
    assert found.committed_at is not None
    assert found.committed_at.year == 2023
    assert found.heartbeat_at is not None
    assert (host.command.run / f"follower-{followed.source.pk}.pid.json").exists()


def test_what_waits_stays_known_until_a_new_follower_has_counted_it(
    start: Start, followed: World
) -> None:
    host = start()
    until(host, is_following(followed))
    (source,) = host.sources.values()
    source.note_state(replace(source.state, waiting_bytes=None, rows=0), 0.0)
    write_all([source], owner=host.owner, host=host.place)
    assert (row(followed).rows, row(followed).waiting_bytes) == (0, 4096)


def test_a_follower_that_does_not_reach_its_source_says_nothing_of_its_end(
    start: Start, followed: World
) -> None:
    """It was shown as a second behind a source that was away for hours."""
    host = start()
    until(host, is_following(followed))
    SourceFollower.objects.update(heartbeat_at="2026-01-01T00:00Z")
    before = row(followed)
    (source,) = host.sources.values()
    away = replace(source.state, observed="waiting", log=SourceLog())
    source.note_state(away, 0.0)
    write_all([source], owner=host.owner, host=host.place)
    found = row(followed)
    assert found.observed == "waiting"
    assert (found.heartbeat_at, found.log_behind) == (before.heartbeat_at, 512)


def test_one_that_fails_at_each_start_has_not_recovered_while_it_starts(
    start: Start, followed: World
) -> None:
    """Its page told no reason half of the time, and no alert opened for minutes."""
    host = start()
    until(host, is_following(followed))
    (source,) = host.sources.values()
    source.show("failed", "the source cannot be reached", "source_unreachable")
    starting = replace(source.state, observed="starting")
    source.note_state(starting, 0.0)
    assert (source.observed, source.code) == ("failed", "source_unreachable")
    source.note_state(replace(starting, observed="waiting", reason="a lock"), 0.0)
    assert (source.observed, source.reason) == ("waiting", "a lock")


def test_sources_without_log_tables_are_left_alone(start: Start, world: World) -> None:
    world.onboard("orders")
    host = start()
    for _ in range(3):
        host.wake()
        host.step(0)
    assert not host.sources
    assert not SourceFollower.objects.exists()


def test_changed_tables_are_sent_to_the_follower(start: Start, followed: World) -> None:
    host = start()
    until(host, is_following(followed))
    pid = row(followed).pid
    orders = followed.pipeline("orders")
    Pipeline.objects.filter(pk=orders.pk).update(load_name="first")
    until(host, lambda: "first" in row(followed).position)
    Pipeline.objects.filter(pk=orders.pk).update(state="REMOVING")
    until(host, lambda: row(followed).number == 1)
    assert row(followed).pid == pid, "the reader went on"


def test_a_killed_follower_is_started_again(start: Start, followed: World) -> None:
    host = start()
    until(host, is_following(followed))
    before = row(followed).pid
    kill(before)
    until(host, lambda: row(followed).observed == "failed")
    assert row(followed).code == "follower_died"
    until(host, lambda: row(followed).pid not in {before, None})
    until(host, is_following(followed))
    assert (row(followed).reason, row(followed).code) == ("", "")


def test_one_that_sends_nothing_is_killed_and_shown(
    start: Start, followed: World, settings: Any
) -> None:
    settings.SLUICE_LEASE_SECONDS = 2
    host = start("hang")
    until(host, lambda: row_or_none(followed, code="follower_silent"))
    assert "sent nothing for 2 s" in row(followed).reason


def row_or_none(world: World, **facts: Any) -> SourceFollower | None:
    rows = SourceFollower.objects.filter(datasource=world.source, **facts)
    return rows.first()


def test_a_failure_is_shown_with_what_to_do_and_a_start_or_a_password_tries_at_once(
    start: Start, followed: World
) -> None:
    host = start("fail")
    until(host, lambda: row_or_none(followed, observed="failed", pid=None))
    found = row(followed)
    assert (found.code, found.hint) == ("slot_lost", "resync its tables")
    assert found.reason == "slot 's' is lost: \\x00"
    held = host.sources[followed.source.pk]
    started = held.starts
    assert held.next_start > host.clock(), "nothing that another start mends"
    SourceFollower.objects.update(desired_at=Now())
    until(host, lambda: held.starts > started)
    until(host, lambda: held.next_start > host.clock())
    started = held.starts
    update_datasource(followed.source.name, DatasourceChange(password="new"), by="ada")
    until(host, lambda: held.starts > started)


@pytest.mark.long
def test_a_stopped_source_has_no_process_and_its_lease_is_free(
    start: Start, followed: World
) -> None:
    host = start()
    until(host, is_following(followed))
    process = psutil.Process(row(followed).pid)
    SourceFollower.objects.update(desired="STOPPED", desired_at=Now())
    until(host, lambda: row(followed).observed == "stopped")
    assert not process.is_running()
    assert Lease.objects.get(name=f"follower:{followed.source.pk}").owner == ""
    SourceFollower.objects.update(desired="RUNNING", desired_at=Now())
    until(host, is_following(followed))


@pytest.mark.long
def test_a_changed_address_starts_another_process(
    start: Start, followed: World
) -> None:
    host = start()
    until(host, is_following(followed))
    before = row(followed).pid
    followed.source.username = "other"
    followed.source.secret = encrypt("longer-" + PASSWORD)
    followed.source.save()
    until(host, lambda: row(followed).first == len("longer-" + PASSWORD))
    assert row(followed).pid != before


def test_only_one_host_follows_a_source_and_another_takes_over(
    start: Start, followed: World
) -> None:
    first, second = start(), start()
    until(first, is_following(followed), second)
    assert not second.sources
    # the first one is stopped for longer than its lease
    Lease.objects.filter(owner=first.owner).update(expires_at=Now())
    until(second, lambda: row(followed).host == "machine-1")
    child = first.sources[followed.source.pk].child
    assert child is not None
    process = psutil.Process(child.process.pid)
    until(first, lambda: not first.sources, second)
    wait_for(lambda: not process.is_running(), "the end of its reader")
    assert row(followed).host == "machine-1", "who lost the lease writes nothing"


def test_hosts_that_start_together_share_the_sources(
    start: Start, followed: World
) -> None:
    for number in range(7):
        source = make_source(f"other{number}")
        (table,) = make_tables(source, ["t"])
        row = followed.pipeline("orders")
        row.pk, row.source_table = None, table
        row.save()
    first, second = start(), start()
    following = SourceFollower.objects.filter(observed="following")
    until(first, lambda: following.count() == 8, second)
    held = [set(first.sources), set(second.sources)]
    assert not held[0] & held[1]
    assert sorted(map(len, held)) == [4, 4]


def test_a_host_that_ends_gives_its_sources_back(start: Start, followed: World) -> None:
    first, second = start(), start()
    until(first, is_following(followed))
    process = psutil.Process(row(followed).pid)
    first.stop()
    assert not process.is_running()
    assert row(followed).observed == "stopped"
    until(second, is_following(followed))
    assert row(followed).host == "machine-1"


def test_a_table_that_the_log_brings_on_no_more_needs_a_resync(
    start: Start, followed: World
) -> None:
    Pipeline.objects.filter(pk=followed.pipeline("items").pk).update(state="RESYNCING")
    host = start("lose")
    until(host, lambda: followed.pipeline("orders").state == "NEEDS_RESYNC")
    reason = followed.pipeline("orders").status_reason
    assert reason == "a: lost; resync the table"
    with override("zh-hans"):
        assert translated(reason) == "a：lost；请重新同步此表"
    waits = followed.pipeline("items")
    assert waits.state == "RESYNCING", "its load is on its way"
    assert waits.status_reason == (
        "the follower of the source's log does not take its rows: a: lost; resync the"
        " table"
    )
    assert row(followed).observed == "following", "others are not concerned"


def test_why_a_load_waits_is_said_and_taken_back(followed: World) -> None:
    Pipeline.objects.update(state="SNAPSHOTTING")

    def waits(problem: str, said: dict[int, str]) -> tuple[dict[int, str], str]:
        table_id = followed.pipeline("orders").lake_table_id
        assert table_id is not None
        found = explain_loads([FollowedTable(table_id, "", problem)], said)
        return found, followed.pipeline("orders").status_reason

    said, reason = waits("it is unlogged", {})
    assert reason == (
        "the follower of the source's log does not take its rows: it is unlogged"
    )
    assert waits("", said) == ({}, "")
    Pipeline.objects.update(status_reason="tried again")
    assert waits("", said) == ({}, "tried again")


def test_columns_are_read_again_once_for_each_reason_why_a_load_waits(
    followed: World,
) -> None:
    Pipeline.objects.filter(lake_table__name="orders").update(state="RESYNCING")
    table_id = followed.pipeline("orders").lake_table_id
    assert table_id is not None
    said: dict[int, str] = {}
    looks = []
    for problem in ("no column a", "no column a", "", "no column b"):
        said = explain_loads([FollowedTable(table_id, "", problem)], said)
        found = Job.objects.filter(kind="look")
        looks.append(found.count())
        found.update(state="SUCCEEDED")
    assert looks == [1, 1, 1, 2]


def test_a_table_whose_plan_cannot_be_read_needs_a_resync_and_stops_no_other(
    start: Start, followed: World
) -> None:
    Pipeline.objects.filter(pk=followed.pipeline("orders").pk).update(plan={"v": "?"})
    host = start("lose")
    until(host, lambda: followed.pipeline("orders").state == "NEEDS_RESYNC")
    until(host, is_following(followed))


def test_columns_that_the_log_shows_first_are_looked_at_once(
    start: Start, followed: World
) -> None:
    host = start("extra")
    until(host, lambda: Job.objects.filter(kind="look").count() == 2)
    Job.objects.filter(kind="look").delete()
    seen = row(followed).rows
    until(host, lambda: row(followed).rows > seen)
    assert not Job.objects.filter(kind="look").exists()


def test_a_column_that_came_during_a_load_is_looked_at_behind_it(
    start: Start, followed: World
) -> None:
    """The load may have read its rows before."""
    items = Pipeline.objects.filter(pk=followed.pipeline("items").pk)
    items.update(state="RESYNCING")
    host = start("extra")
    until(host, lambda: Job.objects.filter(kind="look").count() == 1)
    seen = row(followed).rows
    until(host, lambda: row(followed).rows > seen)
    assert Job.objects.filter(kind="look").count() == 1
    items.update(state="LIVE")
    until(host, lambda: Job.objects.filter(kind="look").count() == 2)


@pytest.mark.long
def test_a_lost_log_is_passed_over_once(start: Start, followed: World) -> None:
    """As a person decided; the next start loses nothing on its own."""
    SourceFollower.objects.create(datasource=followed.source, begin_anew=True)
    host = start()
    until(host, is_following(followed))
    until(host, lambda: not row(followed).begin_anew)
    (source,) = host.sources.values()
    assert source.child is not None
    assert source.child.spec.begin_anew
    kill(row(followed).pid)
    until(host, lambda: source.child is not None and source.starts > 1)
    assert not source.child.spec.begin_anew
