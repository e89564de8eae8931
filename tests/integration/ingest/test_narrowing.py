"""Columns that are gone at the source leave a table with its re-sync."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.models import Column, SchemaVersion, Table
from ingest.alerts import triggers
from ingest.models.alerts import Alert
from ingest.pipelines import schema_diff, table_commands
from tests.doubles.launcher import Fault


def alter(world: Any, **types: str | None) -> Table:
    """What a discovery finds: None = the column is gone."""
    source = world.pipeline("orders").source_table
    for name, found in types.items():
        column = Column.objects.filter(table=source, name=name)
        column.delete() if found is None else column.update(source_type=found)
    Table.objects.filter(pk=source.pk).update(schema_fingerprint="altered")
    return world.lake("orders")


def columns_of(table: Table) -> list[str]:
    return list(table.columns.values_list("name", flat=True))


@pytest.mark.django_db
def test_a_column_that_is_gone_leaves_with_the_commit(world) -> None:
    world.live("orders")
    lake = alter(world, name=None)
    schema_diff.report_altered(Table.objects.filter(name="orders"))
    triggers.read_events()
    told = Alert.objects.get(closed_at=None)
    assert (told.kind, told.code) == ("schema_change", "source_altered")
    assert "approve it there" in told.hint
    version = lake.schema_version
    world.fail_with("resync", Fault.HANG)
    table_commands.start_resync(lake, actor="ann")
    world.until(lambda: world.jobs("resync")[-1].state == "RUNNING")
    assert "gone at the source" in world.pipeline("orders").status_reason
    (spec,) = [s for s in world.launcher.submitted if s.kind == "resync"]
    assert [c.name for c in spec.table.columns] == ["id", "updated_at"]
    # readers see the old copy until the new one is there
    assert columns_of(lake) == ["id", "name", "updated_at"]
    table_commands.cancel_job(world.jobs("resync")[-1].pk, actor="ann")
    world.until(lambda: world.pipeline("orders").state == "PAUSED")
    table_commands.resume(lake, actor="ann")
    # the lake still has its values, and would show them if the column came back
    assert world.pipeline("orders").state == "NEEDS_RESYNC"
    table_commands.start_resync(lake, actor="ann")
    world.until(lambda: world.jobs("resync")[-1].state == "SUCCEEDED")
    world.until_live("orders")
    assert columns_of(lake) == ["id", "updated_at"]
    assert world.lake("orders").schema_version == version + 1
    told.refresh_from_db()
    assert told.closed_because == "recovered", "that solved it"
    newest = SchemaVersion.objects.filter(table=lake).last()
    assert newest is not None
    assert [c["name"] for c in newest.columns] == ["id", "updated_at"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "types",
    [{"id": None}, {"updated_at": None}, {"name": None, "id": "text"}],
    ids=["key", "cursor", "a type changed, too"],
)
def test_any_other_change_is_refused_as_before(
    world, types: dict[str, str | None]
) -> None:
    world.live("orders")
    lake = alter(world, **types)
    table_commands.start_resync(lake, actor="ann")
    world.until(lambda: world.jobs("resync")[-1].state == "FAILED")
    assert world.jobs("resync")[-1].error_code == "source_altered"
    assert columns_of(lake) == ["id", "name", "updated_at"]
