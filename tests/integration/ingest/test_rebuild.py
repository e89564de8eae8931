"""The metadata database is lost, without any backup: its rows come back from the lake.

Rows are deleted and sequences begin anew; the lake stays as it is.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from catalog.models import Column, Database, Datasource, SchemaVersion, Table
from config.supervisor import doctor
from core.models import Job, Lease
from ingest.contract.records import SourceRecord, TableRecord
from ingest.contract.segments import Control
from ingest.jobs.leases import lease_name
from ingest.lake.chain import begin_stream, stream_folder, take_over
from ingest.lake.fence import fence_at, fence_path
from ingest.lake.place import place_at
from ingest.lake.records import recorded, stored_record
from ingest.models import (
    DriverIncarnation,
    Onboarding,
    Pipeline,
    Policy,
    SourceFollower,
)
from ingest.pipelines import adoption, rebuilding, recording
from ingest.pipelines.followers import stop_capture
from ingest.pipelines.log_tables import follow_spec, stream_of
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.pipelines.sync_job import start_sync
from tests.doubles.launcher import Fault, write_commit
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_adoption import adopt as rebuild
from tests.integration.ingest.test_adoption import adopted
from tests.integration.ingest.world import make_source

pytestmark = pytest.mark.django_db

_BEGIN_ANEW = "SELECT setval(pg_get_serial_sequence(%s, 'id'), 1)"


def lose_database(world: Any) -> None:
    """What `migrate` makes of an empty one: nothing is left but the lake's own row."""
    Job.objects.all().delete()
    DriverIncarnation.objects.all().delete()
    Lease.objects.all().delete()
    Pipeline.objects.all().delete()
    Onboarding.objects.all().delete()
    Table.objects.all().delete()
    Database.objects.all().delete()
    Datasource.objects.exclude(kind="lake").delete()
    with connection.cursor() as cursor:
        for model in (Table, Datasource):
            cursor.execute(_BEGIN_ANEW, [model._meta.db_table])
    assert Policy.objects.count() == 0
    world.new_host()


SHOWN = (
    "id", "name", "source_name", "kind", "comment", "record_key", "cursor",
    "partition_by", "buckets", "path", "identity",
    "schema_version", "estimated_rows", "status", "is_queryable",
    "last_commit_instant", "last_commit_position", "last_commit_epoch",
    "database__name",
)  # fmt: skip
KEPT = ("lake_table_id", "capture", "plan", "policy", "drift", "position", "bound")


def shown(name: str) -> dict[str, Any]:
    lake = Table.objects.filter(kind="lake", name=name)
    columns = Column.objects.filter(table__in=lake)
    return {
        **lake.values(*SHOWN).get(),
        "columns": list(columns.values_list("position", "name", "source_type", "type")),
        "versions": list(
            SchemaVersion.objects.filter(table__in=lake).values_list(
                "version", "columns"
            )
        )[-1:],
    }


def kept(name: str) -> dict[str, Any]:
    return Pipeline.objects.filter(lake_table__name=name).values(*KEPT).get()


def set_password(admin: Any, password: str = "canary-password") -> None:
    changed = admin("PATCH", "datasources/shop", {"password": password})
    assert changed.status_code == 200, changed.content


def prepare(world: Any, admin: Any) -> None:
    """Two live tables, with policies at each level."""
    world.live("orders", "items")
    change_table_policy(world.pipeline("items"), {"freshness_seconds": 77})
    change_policy(world.source, None, {"schedule": {"every_seconds": 120}})
    database = Database.objects.get(datasource=world.source)
    change_policy(world.source, database, {"freshness_seconds": 99})
    for _ in range(2):
        admin("POST", f"tables/{world.lake('orders').pk}:sync")
        world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    world.steps(2)


def test_positions_and_states_come_back_from_the_lake_alone(
    world, admin, settings
) -> None:
    prepare(world, admin)
    before = {name: (shown(name), kept(name)) for name in ("orders", "items")}
    fields = ("id", "name", "kind", "host", "port", "database", "username", "options")
    source = Datasource.objects.filter(name="shop").values(*fields).get()
    lake = settings.SLUICE_LAKE_URI
    tokens = {
        name: fence_at(fence_path(lake, facts["id"]))
        for name, (facts, _) in before.items()
    }
    rows = list(Policy.objects.order_by("given").values_list("given", "database__name"))

    lose_database(world)
    code, told = rebuild("--dry-run")
    assert (code, "2 to rebuild" in told) == (0, True), told
    assert not Pipeline.objects.exists()
    assert not Datasource.objects.exclude(kind="lake").exists()

    code, told = rebuild()
    assert code == 0, told
    assert "lake.shop.orders: rebuilt" in told
    assert "2 tables, 2 rebuilt" in told
    assert "shop: needs its password again" in told
    assert source == Datasource.objects.filter(name="shop").values(*fields).get()
    now = Policy.objects.order_by("given").values_list("given", "database__name")
    assert rows == list(now)
    for name, (facts, way) in before.items():
        # what it is until its next sync
        assert shown(name) == facts | {"status": "CATCHING_UP"}
        assert kept(name) == way
        fence = fence_at(fence_path(lake, facts["id"]))
        lease = Lease.objects.get(name=lease_name(facts["id"], "write"))
        assert fence == lease.token > tokens[name]
    assert rebuild()[0] == 0

    set_password(admin)
    assert "needs its password" not in rebuild()[1]
    world.until_live("orders", "items")
    assert {job.kind for job in Job.objects.all()} == {"sync"}
    newest = world.launcher.submitted[-1]
    assert newest.sync.low in {way["position"] for _, way in before.values()}
    epochs = [job.report["facts"]["epoch"] for job in world.jobs("sync")]
    assert min(epochs) > min(f["last_commit_epoch"] for f, _ in before.values())
    assert Table.objects.latest("id").pk > max(f["id"] for f, _ in before.values())


def test_doctor_says_that_a_database_is_not_the_lakes(world) -> None:
    world.live("orders")
    world.steps(2)
    assert [one.advice for one in doctor.lake_tables()] == [""]
    lose_database(world)
    (one,) = doctor.lake_tables()
    assert "does not know 1" in one.text
    assert "manage.py rebuild" in one.advice
    rebuild()
    assert [one.advice for one in doctor.lake_tables()] == [""]
    (one,) = doctor.sources()
    assert "the password of shop was lost" in one.text
    assert "PATCH" in one.advice


def test_a_lake_at_another_address_is_not_taken_for_the_tables_own(
    world, settings, tmp_path
) -> None:
    """Their files are read and written where they were, by whose they are, too."""
    world.live("orders")
    world.steps(2)
    other = tmp_path / "copy"
    shutil.copytree(settings.SLUICE_LAKE_URI, other)
    settings.SLUICE_LAKE_URI = str(other)
    for given in (["--dry-run"], []):
        code, told = rebuild(*given)
        assert (code, "a lake keeps its address" in told) == (1, True), told
        assert "Move its folder away" not in told
    (one,) = doctor.lake_tables()
    assert "a lake keeps its address" in one.text
    lose_database(world)
    code, told = rebuild()
    assert code == 1, told
    assert "lake.shop.orders: not rebuilt: its files are at" in told
    assert not Pipeline.objects.exists()


def test_a_source_without_its_password_is_not_connected_to(world, admin) -> None:
    world.live("orders")
    world.steps(2)
    lose_database(world)
    rebuild()
    row = Datasource.objects.get(name="shop")
    assert (row.secret, row.needs_password) == ("", True)


@pytest.mark.parametrize("verb", ["pause", "resync"])
def test_a_decision_is_remembered(world, admin, verb: str) -> None:
    world.live("orders")
    if verb == "resync":
        world.fail_with("resync", Fault.HANG)
    table = world.lake("orders").pk
    assert admin("POST", f"tables/{table}:{verb}").status_code < 300
    if verb == "resync":
        world.until(lambda: world.jobs("resync")[-1].state == "RUNNING")
    world.steps(2)
    position = world.pipeline("orders").position
    lose_database(world)
    assert rebuild()[0] == 0
    pipeline = world.pipeline("orders")
    assert pipeline.state == {"pause": "PAUSED", "resync": "CATCHING_UP"}[verb]
    assert pipeline.position == position
    set_password(admin)
    if verb == "pause":
        assert admin("POST", f"tables/{table}:resume").status_code < 300
    world.until_live("orders")


def test_a_table_that_was_not_loaded_waits(world, admin) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: [j.state for j in world.jobs("snapshot")] == ["RUNNING"])
    world.steps(2)
    table = world.lake("orders").pk
    lose_database(world)
    code, told = rebuild()
    assert code == 0, told
    pipeline = world.pipeline("orders")
    assert (pipeline.state, pipeline.resume_event) == ("PAUSED", "resume_approved")
    assert not world.lake("orders").is_queryable
    set_password(admin)
    assert admin("POST", f"tables/{table}:resume").status_code < 300
    world.until_live("orders")


def test_a_load_that_ended_after_the_record_is_known(world, admin, monkeypatch) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: [j.state for j in world.jobs("snapshot")] == ["RUNNING"])
    world.steps(2)
    monkeypatch.setattr(recording, "PAGE", 0)
    world.new_host()
    DriverIncarnation.objects.update(heartbeat_at="2020-01-01T00:00Z")
    world.until_live("orders")
    newest, position = (
        world.lake("orders").last_commit_instant,
        world.pipeline("orders").position,
    )
    lose_database(world)
    code, told = rebuild()
    assert (code, "its snapshot is in the lake" in told) == (0, True), told
    lake, pipeline = world.lake("orders"), world.pipeline("orders")
    assert (lake.last_commit_instant, lake.is_queryable) == (newest, True)
    assert (pipeline.position, pipeline.state) == (position, "CATCHING_UP")


@pytest.mark.parametrize("drop", [True, False])
def test_what_was_removed_does_not_come_back(world, admin, settings, drop) -> None:
    world.live("orders")
    world.steps(2)
    table, lake = world.lake("orders").pk, settings.SLUICE_LAKE_URI
    assert recorded(lake, TableRecord) == [table]
    admin("POST", f"tables/{table}:remove", {"data": "drop" if drop else "keep"})
    world.until(lambda: [j.state for j in world.jobs("remove")] == ["SUCCEEDED"])
    world.steps(2)
    assert recorded(lake, TableRecord) == ([] if drop else [table])
    if not drop:
        record = stored_record(lake, TableRecord, table)
        assert record
        assert record.state == "RETIRED"
    before = None if drop else shown("orders")
    lose_database(world)
    code, told = rebuild()
    assert code == 0, told
    assert not Pipeline.objects.exists()
    if not drop:
        assert shown("orders") == before


@pytest.mark.parametrize("has_files", [True, False])
def test_a_removal_that_had_not_ended(world, settings, has_files: bool) -> None:
    world.live("orders")
    table, lake = world.lake("orders"), settings.SLUICE_LAKE_URI
    Pipeline.objects.update(state="REMOVING")
    type(table).objects.filter(pk=table.pk).update(is_queryable=False)
    recording.record_changed()
    if not has_files:
        shutil.rmtree(table.path)
    lose_database(world)
    assert rebuild("--dry-run")[0] == 0
    assert recorded(lake, TableRecord) == [table.pk]
    assert rebuild()[0] == 0
    assert recorded(lake, TableRecord) == ([table.pk] if has_files else [])
    states = list(Pipeline.objects.values_list("state", flat=True))
    assert states == (["PAUSED"] if has_files else [])
    if has_files:
        assert "remove it again" in world.pipeline("orders").status_reason
        assert world.lake("orders").is_queryable


def test_a_removed_source_leaves_no_record(
    world, admin, settings, django_capture_on_commit_callbacks
) -> None:
    world.live("orders")
    table, lake = world.lake("orders").pk, settings.SLUICE_LAKE_URI
    world.steps(2)
    assert recorded(lake, SourceRecord) == [world.source.pk]
    admin("POST", f"tables/{table}:remove", {"data": "drop"})
    world.until(lambda: [j.state for j in world.jobs("remove")] == ["SUCCEEDED"])
    with django_capture_on_commit_callbacks(execute=True):
        assert admin("DELETE", "datasources/shop").status_code == 204
    assert recorded(lake, SourceRecord) == []


def test_what_stands_in_the_way_is_told(world, admin) -> None:
    world.live("orders", "items")
    world.steps(2)
    lose_database(world)
    Datasource.objects.create(name="Shop", kind="postgresql", host="h", port=1)
    code, told = rebuild()
    assert code == 1, told
    assert "lake.shop.orders: not rebuilt: its source shop was added here again" in told
    assert "2 not rebuilt" in told
    Datasource.objects.filter(name="Shop").delete()
    assert rebuild()[0] == 0
    assert Pipeline.objects.count() == 2


def test_a_damaged_record_stops_only_its_table(world, settings) -> None:
    world.live("orders", "items")
    world.steps(2)
    table = world.lake("orders").pk
    lose_database(world)
    place = place_at(settings.SLUICE_LAKE_URI) / "_sluice" / "tables" / f"{table}.json"
    place.replace("{")
    code, told = rebuild()
    assert code == 1, told
    assert "1 rebuilt, 1 not rebuilt" in told
    assert "lake.shop.orders: not in the database, and the lake has no record" in told


def test_a_kill_anywhere_leaves_what_the_next_run_ends(world, monkeypatch) -> None:
    world.live("orders", "items")
    world.steps(2)
    position = world.pipeline("orders").position
    steps = [
        (rebuilding, "_source_table"),
        (rebuilding, "_lake_table"),
        (rebuilding, "_pipeline"),
        (adoption, "_take_fences"),
        (adoption, "_follow"),
    ]
    for module, name in steps:
        lose_database(world)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, _dies)
            with pytest.raises(KeyboardInterrupt), transaction.atomic():
                rebuild()
        code, told = rebuild()
        assert code == 0, told
        assert world.pipeline("orders").position == position


def _dies(*_: Any, **__: Any) -> Iterator[None]:
    raise KeyboardInterrupt


def test_a_change_is_recorded_once(world, admin, settings) -> None:
    world.live("orders")
    recording.record_changed()
    assert recording.record_changed() == 0
    pipeline, lake = world.pipeline("orders"), settings.SLUICE_LAKE_URI
    # as its syncs do all the time
    Pipeline.objects.filter(pk=pipeline.pk).update(state="CATCHING_UP", position="z")
    assert recording.record_changed() == 0
    for change in (
        {"state": "PAUSED"},
        {"load_name": "x"},
        {"bound": "b"},
        {"policy": {"freshness_seconds": 5}},
        {"drift": {"": {"state": "needed"}}},
    ):
        Pipeline.objects.filter(pk=pipeline.pk).update(**change)
        assert recording.record_changed() == 1, change
    record = stored_record(lake, TableRecord, pipeline.lake_table_id)
    assert record
    assert (record.state, record.load_name, record.bound) == ("PAUSED", "x", "b")
    set_password(admin, "another")
    assert recording.record_changed() == 1


LOAD = [Control("added", 0), Control("cut", 0, load="new")]
DONE = [*LOAD, Control("finished", 0, at="lsn:7:1:0/5")]


def follow_log(
    world: Any, settings: Any, controls: list[Control], *, behind: int
) -> int:
    """`orders` follows the log, whose stream has these records, each in a segment; the
    last one's number is `behind` segments behind the newest commit."""
    world.live("orders")
    write_commit(world.launcher.submitted[-1], start="", end="a", epoch=20)
    start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    table = world.lake("orders")
    begin, end = "lsn:7:1:0/1", "lsn:7:1:0/5"
    instant = write_commit(
        world.launcher.submitted[-1],
        start=begin,
        end=end,
        epoch=table.last_commit_epoch,
    )
    Table.objects.filter(pk=table.pk).update(last_commit_instant=instant)
    Pipeline.objects.update(capture="log", load_name="old", bound=begin, position=end)
    folder = stream_folder(settings.SLUICE_LAKE_URI, stream_of(world.source.pk))
    above = table.last_commit_epoch - behind - len(controls) - 1
    begin_stream(folder, above=above)
    writer = take_over(
        folder, stream=stream_of(world.source.pk), writer="w", server="7", begin="a"
    )
    for control in controls:
        of_table = dataclasses.replace(control, table_id=table.pk)
        last = writer.append(end="b", controls=[of_table])
    assert last.number == table.last_commit_epoch - behind
    recording.record_changed()
    return int(table.pk)


def test_a_log_is_followed_on_from_the_lake(world, admin, settings) -> None:
    table = follow_log(world, settings, DONE, behind=0)
    before = follow_spec(world.source, writer="w")
    position = world.pipeline("orders").position
    lose_database(world)
    code, told = rebuild()
    assert code == 0, told
    pipeline = world.pipeline("orders")
    assert (pipeline.state, pipeline.position) == ("CATCHING_UP", position)
    assert pipeline.due_at is None
    assert (pipeline.load_name, pipeline.bound) == ("new", "lsn:7:1:0/5")
    source = Datasource.objects.get(name="shop")
    after = follow_spec(source, writer="w")
    (one,) = after.tables
    assert (one.table.table_id, one.deferred) == (table, "")
    assert after.above >= pipeline.lake_table.last_commit_epoch
    names = ("stream", "slot", "publication", "lake")
    for name in names:
        assert getattr(before, name) == getattr(after, name)


def test_a_stopped_reader_stays_stopped(world, settings) -> None:
    follow_log(world, settings, DONE, behind=0)
    stop_capture(world.source)
    assert recording.record_changed() == 1
    lose_database(world)
    rebuild()
    assert SourceFollower.objects.get().desired == "STOPPED"


@pytest.mark.parametrize("lost", ["load", "stream"])
def test_a_table_that_its_stream_does_not_bring_on_needs_a_resync(
    world, settings, lost: str
) -> None:
    follow_log(world, settings, LOAD, behind=-2 if lost == "load" else 0)
    if lost == "stream":
        stream_folder(settings.SLUICE_LAKE_URI, stream_of(world.source.pk)).delete_all()
    lose_database(world)
    code, told = rebuild()
    assert code == 1, told
    said = {"load": "a load of it had begun", "stream": "there is no stream"}[lost]
    assert said in told
    assert world.pipeline("orders").state == "NEEDS_RESYNC"
    (one,) = follow_spec(Datasource.objects.get(name="shop"), writer="w").tables
    assert said in one.deferred


def test_a_database_that_does_not_know_the_lake_overwrites_no_record(
    world, settings, caplog
) -> None:
    world.live("orders")
    world.steps(2)
    table, lake = world.lake("orders").pk, settings.SLUICE_LAKE_URI
    lose_database(world)
    # nobody ran rebuild: what is added gets the same ids
    kept = stored_record(lake, TableRecord, table)
    again = make_source("other")
    Datasource.objects.filter(pk=again.pk).update(id=world.source.pk)
    world.source = Datasource.objects.get(name="other")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('catalog_table', 'id'), %s)",
            [table - 2],
        )
    world.onboard("items")
    assert world.lake("items").pk == table
    assert recording.record_changed() == 0
    assert "is of shop.orders, not other.items" in caplog.text
    assert stored_record(lake, TableRecord, table) == kept


def test_the_statements_of_a_table_are_a_fixed_number(
    world, django_assert_max_num_queries
) -> None:
    many_lost(world, count=40)
    with django_assert_max_num_queries(40 * 60 + 40):
        code, told = rebuild()
    assert (code, "40 tables, 40 rebuilt" in told) == (0, True), told


@pytest.mark.long
def test_a_thousand_tables_are_rebuilt(world, capsys) -> None:
    began = time.monotonic()
    many_lost(world, count=1_000)
    recorded = time.monotonic()
    code, told = rebuild()
    ended = time.monotonic()
    assert (code, "1000 tables, 1000 rebuilt" in told) == (0, True), told[-500:]
    with capsys.disabled():
        print(  # noqa: T201
            f"\n1,000 tables made in {recorded - began:.1f} s, rebuilt in"
            f" {ended - recorded:.1f} s"
        )


def many_lost(world: Any, *, count: int) -> None:
    adopted(world, count=count)
    while recording.record_changed():
        pass
    lose_database(world)
