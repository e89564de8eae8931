"""The metadata database is lost and restored from a backup: its rows follow the lake.

A savepoint of the test's transaction is the backup: going back to it makes every row
what it was, while the lake stays as it is.
"""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from core.models import Job, Lease
from ingest.contract.job import JobSpec
from ingest.contract.records import TableRecord
from ingest.contract.table import FenceSpec
from ingest.jobs import leases as job_leases
from ingest.jobs import queue, reconcile
from ingest.jobs.kinds import shared_by_all, source_spec
from ingest.lake.fence import fence_at, fence_path
from ingest.lake.records import delete_record
from ingest.maintenance import compact_job
from ingest.models import DriverIncarnation, MaintenancePlan, Pipeline
from ingest.pipelines import adoption
from tests.doubles.launcher import Fault, write_commit
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.long_tests import first_then_long

pytestmark = pytest.mark.django_db


def adopt(*options: str) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command("rebuild", *options, stdout=out, stderr=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def lose_database(world: Any, backup: str) -> None:
    """The rows are those of the backup, some time ago; its drivers are gone."""
    transaction.savepoint_rollback(backup)
    DriverIncarnation.objects.update(heartbeat_at="2020-01-01T00:00Z", ready_at=None)
    world.new_host()


def sync(world: Any, admin: Any, name: str) -> Any:
    admin("POST", f"tables/{world.lake(name).pk}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    return world.jobs("sync")[-1]


def fences(settings: Any, table: int) -> list[int]:
    lake = settings.SLUICE_LAKE_URI
    return [fence_at(fence_path(lake, table, s)) for s in ("write", "service")]  # type: ignore[arg-type]


def leases(table: int) -> list[int]:
    names = [job_leases.lease_name(table, s) for s in ("write", "service")]  # type: ignore[arg-type]
    found = dict(Lease.objects.filter(name__in=names).values_list("name", "token"))
    return [found[name] for name in names]


def test_everything_goes_on_after_the_restore(world, admin, settings) -> None:
    world.live("orders", "items")
    sync(world, admin, "orders")
    backup = transaction.savepoint()
    for _ in range(3):
        sync(world, admin, "orders")
    table = world.lake("orders").pk
    compact_job.start_compaction(world.lake("orders"), actor="x")
    world.until(lambda: world.jobs("compact")[-1].state == "SUCCEEDED")
    pipeline, lake = world.pipeline("orders"), world.lake("orders")
    newest = (pipeline.position, lake.last_commit_instant, lake.last_commit_epoch)
    before = fences(settings, table)

    lose_database(world, backup)
    assert world.pipeline("orders").position < newest[0]
    rows = list(Job.objects.values_list("pk", "state"))
    code, told = adopt("--dry-run")
    assert (code, "ahead" in told, "Nothing was changed" in told) == (0, True, True)
    assert rows == list(Job.objects.values_list("pk", "state"))
    assert fences(settings, table) == before

    code, told = adopt()
    assert code == 0, told
    assert "orders: adopted (ahead)" in told
    assert "1 agrees, 1 ahead" in told
    pipeline, lake = world.pipeline("orders"), world.lake("orders")
    assert newest == (
        pipeline.position,
        lake.last_commit_instant,
        lake.last_commit_epoch,
    )
    assert fences(settings, table) == leases(table)
    assert all(
        now > was for now, was in zip(fences(settings, table), before, strict=True)
    )
    # once more changes nothing
    code, told = adopt()
    assert (code, "2 agrees" in told) == (0, True)
    assert fences(settings, table) == leases(table)
    job = sync(world, admin, "orders")
    assert job.report["facts"]["epoch"] == newest[2] + 1
    assert world.launcher.submitted[-1].sync.low == newest[0]
    compact_job.start_compaction(world.lake("orders"), actor="x")
    world.until(lambda: world.jobs("compact")[-1].state == "SUCCEEDED")


@pytest.mark.parametrize(
    "kind", first_then_long("sync", "compact", "remove", "repair", "resync", first=3)
)
def test_jobs_of_the_backup_never_run_again(world, admin, settings, kind: str) -> None:
    world.live("orders")
    table = world.lake("orders").pk
    if kind != "remove":
        world.fail_with(kind, Fault.HANG)
    if kind == "compact":
        compact_job.start_compaction(world.lake("orders"), actor="x")
    else:
        verb = {"sync": "sync", "repair": "clean", "resync": "resync"}.get(
            kind, "remove"
        )
        assert admin("POST", f"tables/{table}:{verb}").status_code < 300
    if kind != "remove":
        world.until(lambda: world.jobs(kind)[-1].state == "RUNNING")
    backup = transaction.savepoint()
    lose_database(world, backup)
    code, told = adopt()
    assert code == 0, told
    assert "jobs of the backup ended: 1" in told
    assert {j.state for j in world.jobs(kind)} <= {"CANCELLED", "SUCCEEDED"}
    assert world.jobs(kind)[-1].state == "CANCELLED"
    submitted = len(world.launcher.submitted)
    pipeline = world.pipeline("orders")
    if kind in {"resync", "remove"}:
        assert pipeline.state == "PAUSED"
        assert Path(world.lake("orders").path).exists()
        assert world.lake("orders").is_queryable
        assert admin("POST", f"tables/{table}:resume").status_code < 300
    world.until_live("orders")
    sync(world, admin, "orders")
    kinds = {s.kind for s in world.launcher.submitted[submitted:]}
    assert kinds <= {"sync", "compact"} if kind == "compact" else kinds <= {"sync"}


@pytest.mark.parametrize("state", ["queued", "running", "paused"])
def test_a_snapshot_that_ended_after_the_backup_is_known(world, admin, state) -> None:
    world.onboard("orders")
    if state != "queued":
        world.fail_with("snapshot", Fault.HANG)
        world.until(lambda: [j.state for j in world.jobs("snapshot")] == ["RUNNING"])
    if state == "paused":
        admin("POST", f"jobs/{world.jobs('snapshot')[0].pk}:cancel")
        world.until(lambda: world.pipeline("orders").state == "PAUSED")
    backup = transaction.savepoint()
    if state == "running":
        world.new_host()
        DriverIncarnation.objects.update(heartbeat_at="2020-01-01T00:00Z")
        reconcile.reconcile_jobs()
    if state == "paused":
        admin("POST", f"tables/{world.lake('orders').pk}:resume")
    world.until_live("orders")
    newest = world.lake("orders").last_commit_instant
    lose_database(world, backup)
    code, told = adopt()
    assert (code, "its snapshot is in the lake" in told) == (0, True), told
    assert world.lake("orders").last_commit_instant == newest
    assert world.lake("orders").is_queryable
    if state == "paused":
        assert (
            admin("POST", f"tables/{world.lake('orders').pk}:resume").status_code < 300
        )
    world.until_live("orders")
    world.steps(1)
    assert not [j for j in world.jobs("snapshot") if j.state not in {"CANCELLED"}]


def test_what_the_lake_does_not_have_is_told(world, admin, settings) -> None:
    world.live("orders", "items", "parts")
    backup = transaction.savepoint()
    world.onboard("later")
    world.until_live("later")
    later = world.lake("later")
    damaged = world.lake("items")
    shutil.rmtree(world.lake("orders").path)
    for file in (Path(damaged.path) / ".hoodie" / "timeline").glob("*_*"):
        file.write_bytes(b"no avro")
    lose_database(world, backup)
    delete_record(settings.SLUICE_LAKE_URI, TableRecord, later.pk)
    code, told = adopt()
    assert code == 1, told
    assert "orders: missing" in told
    assert "items: needs resync" in told
    assert f"lake.{later}".replace("lake.lake.", "lake.") in told
    assert "not in the database" in told
    assert world.pipeline("orders").state == "NEEDS_RESYNC"
    assert world.pipeline("items").state == "NEEDS_RESYNC"
    assert world.pipeline("parts").state == "LIVE"
    code, again = adopt()
    assert (code, "orders: missing" in again) == (1, True)


def test_a_table_that_is_added_again_gets_no_id_of_the_lake(
    world, admin, settings
) -> None:
    world.live("orders")
    backup, highest = transaction.savepoint(), given_out()
    world.onboard("later")
    world.until_live("later")
    sync(world, admin, "later")
    before = world.lake("later")
    lose_database(world, backup)
    delete_record(settings.SLUICE_LAKE_URI, TableRecord, before.pk)
    # which a rollback does not do, and pg_restore does
    given_out(highest)

    line = f"ids of new tables would begin above {before.pk},"
    assert line in adopt("--dry-run")[1]
    assert given_out() == highest
    assert f"ids of new tables begin above {before.pk}," in adopt()[1]
    assert given_out() == before.pk
    assert "ids of new tables" not in adopt()[1]
    shutil.rmtree(before.path)
    world.onboard("later")
    world.until_live("later")
    sync(world, admin, "later")
    assert world.lake("later").pk > before.pk


def given_out(now: int | None = None) -> int:
    """The id that a table got last. Now: it is set to that."""
    look = "pg_get_serial_sequence('catalog_table', 'id')::regclass"
    with connection.cursor() as cursor:
        if now is not None:
            cursor.execute(f"SELECT setval({look}, %s)", [now])
        cursor.execute(f"SELECT pg_sequence_last_value({look})")
        return int(cursor.fetchone()[0])


def test_a_job_of_now_is_left_alone(world, admin, settings) -> None:
    world.live("orders")
    world.fail_with("sync", Fault.HANG)
    admin("POST", f"tables/{world.lake('orders').pk}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "RUNNING")
    before = fences(settings, world.lake("orders").pk)
    code, told = adopt()
    assert (code, "busy" in told) == (2, True)
    assert world.jobs("sync")[-1].state == "RUNNING"
    assert fences(settings, world.lake("orders").pk) == before


STEPS: tuple[tuple[Any, str], ...] = (
    (adoption, "_take_fences"),
    (job_leases, "take_back"),
    (adoption, "_follow"),
    (adoption, "_end"),
)


def test_a_kill_anywhere_leaves_what_the_next_run_ends(
    world, admin, settings, monkeypatch
) -> None:
    world.live("orders")
    world.fail_with("compact", Fault.HANG)
    compact_job.start_compaction(world.lake("orders"), actor="x")
    world.until(lambda: world.jobs("compact")[-1].state == "RUNNING")
    backup = transaction.savepoint()
    sync(world, admin, "orders")
    newest, table = world.pipeline("orders").position, world.lake("orders").pk
    for module, name in STEPS:
        for is_behind in (False, True):
            lose_database(world, backup)
            with monkeypatch.context() as patch:
                patch.setattr(module, name, dying(module, name, is_behind=is_behind))
                with pytest.raises(KeyboardInterrupt), transaction.atomic():
                    adopt()
            code, told = adopt()
            assert code == 0, told
            assert world.pipeline("orders").position == newest
            assert [j.state for j in world.jobs("compact")] == ["CANCELLED"]
            assert fences(settings, table) == leases(table)
            assert not MaintenancePlan.objects.filter(state="INFLIGHT").exists()
    sync(world, admin, "orders")


def dying(module: Any, name: str, *, is_behind: bool) -> Callable[..., Any]:
    real: Callable[..., Any] = getattr(module, name)

    def dies(*arguments: Any, **more: Any) -> Any:
        if is_behind:
            real(*arguments, **more)
        raise KeyboardInterrupt

    return dies


@pytest.mark.long
def test_adoption_scales_with_what_differs(
    world, django_assert_max_num_queries
) -> None:
    """Statements, not seconds: a page of tables that agree costs a fixed number."""
    adopted(world, count=40)
    with django_assert_max_num_queries(40 * 25 + 40):
        code, told = adopt()
    assert (code, "40 ahead" in told) == (0, True), told
    with django_assert_max_num_queries(25):
        code, told = adopt("--dry-run")
    assert (code, "40 agrees" in told) == (0, True), told


@pytest.mark.long
def test_a_thousand_tables_are_adopted(world, capsys) -> None:
    adopted(world, count=1_000)
    began = time.monotonic()
    code, told = adopt()
    first = time.monotonic() - began
    assert (code, "1000 ahead" in told) == (0, True), told[-500:]
    began = time.monotonic()
    code, told = adopt()
    assert (code, "1000 agrees" in told) == (0, True), told[-500:]
    with capsys.disabled():
        again = time.monotonic() - began
        print(f"\n1,000 tables adopted in {first:.1f} s, again in {again:.1f} s")  # noqa: T201


def adopted(world: Any, *, count: int) -> None:
    """Tables that are loaded, whose lake has a later commit than their rows."""
    world.onboard(*(f"t{number}" for number in range(count)))
    pipelines = Pipeline.objects.select_related(
        "lake_table__database__datasource", "source_table__database__datasource"
    )
    Job.objects.all().delete()
    jobs, fence = [], FenceSpec("", 9)
    for pipeline in pipelines.order_by("pk"):
        table = pipeline.lake_table
        jobs.append(queue.new_job(pipeline, "snapshot", actor="x"))
        source = source_spec(pipeline.source_table.database.datasource)
        shared = shared_by_all(jobs[-1], pipeline, fence)
        spec = JobSpec(**shared, source=source)
        known = write_commit(spec, start="", end="a", epoch=1)
        # the fake's instants have whole seconds and a number that begins anew at 1,000
        while write_commit(spec, start="a", end="b", epoch=7) <= known:
            pass
        table.last_commit_instant, table.last_commit_epoch = known, 1
        table.is_queryable = True
        fence_path(spec.lake, table.pk).replace("9\n")
        Pipeline.objects.filter(pk=pipeline.pk).update(state="LIVE", position="a")
        table.save()


def test_a_page_of_tables_ends_at_its_limit(world, monkeypatch) -> None:
    adopted(world, count=5)
    # rows that were changed come last, unless somebody orders them
    for pipeline in Pipeline.objects.order_by("-pk"):
        pipeline.save()
    monkeypatch.setattr(adoption, "PAGE", 2)
    code, told = adopt()
    assert (code, "5 tables, 5 ahead" in told) == (0, True), told
