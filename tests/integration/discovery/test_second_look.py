"""A discovery of what was discovered before: what changed, and what is not its own."""

from __future__ import annotations

import pytest

from catalog.models import Column, SchemaVersion, Table
from tests.integration.discovery.support import discover, table

pytestmark = pytest.mark.django_db


def test_a_second_look_tells_what_changed(source) -> None:
    source.run(
        "CREATE TABLE a (x int)", "CREATE TABLE b (x int)", "CREATE TABLE c (x int)"
    )
    source.grant_all()
    first = discover(source.datasource)
    assert first.report == {
        "tables": 3, "pages": 1, "new": 3, "changed": 0, "vanished": 0, "columns_not_carried": 0,
    }  # fmt: skip
    ids = {name: table(source, name).pk for name in "abc"}
    column_ids = set(Column.objects.filter(table=ids["b"]).values_list("pk", flat=True))
    source.run(
        "ALTER TABLE a ADD y regclass", "DROP TABLE c", "COMMENT ON COLUMN b.x IS 'new'"
    )
    second = discover(source.datasource)
    assert second.report == {
        "tables": 2, "pages": 1, "new": 0, "changed": 1, "vanished": 1, "columns_not_carried": 1,
    }  # fmt: skip
    a, b, c = (table(source, name) for name in "abc")
    assert {"a": a.pk, "b": b.pk, "c": c.pk} == ids
    assert (a.schema_version, b.schema_version) == (2, 1)
    versions = SchemaVersion.objects.filter(table=a).order_by("version")
    assert [len(v.columns) for v in versions] == [1, 2]
    assert b.columns.get().comment == "new"
    assert set(b.columns.values_list("pk", flat=True)) != column_ids
    assert (c.status, c.is_queryable) == ("VANISHED", False)
    source.datasource.refresh_from_db()
    assert source.datasource.table_count == 2

    column_ids = set(Column.objects.values_list("pk", flat=True))
    source.run("CREATE TABLE c (x bigint)")
    source.grant_all()
    discover(source.datasource)
    c = table(source, "c")
    assert (c.status, c.status_reason, c.schema_version) == ("DISCOVERED", "", 2)
    unchanged = set(Column.objects.exclude(table=c).values_list("pk", flat=True))
    assert unchanged < column_ids  # nothing was written for tables that are the same
    assert SchemaVersion.objects.filter(table=c).count() == 2


def test_a_status_of_somebody_else_stays(source) -> None:
    source.run("CREATE TABLE t (x int)")
    discover(source.datasource)
    Table.objects.filter(pk=table(source, "t").pk).update(status="LIVE")
    discover(source.datasource)
    assert table(source, "t").status == "LIVE"
