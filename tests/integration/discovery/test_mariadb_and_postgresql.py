"""What discovery and test promise, whatever the kind of source; on both real servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catalog.discovery import services
from catalog.models import Column, Table
from catalog.sources.registry import kind_named
from core import jobs
from core.errors import InvalidRequest
from ingest.pipelines.table_facts import table_facts
from tests.integration.discovery.support import discover, finish, table_at_source

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["postgresql", "mariadb"])
def any_source(request) -> Iterator[tuple]:
    """(source, its first database); the same statements run on each."""
    if request.param == "postgresql":
        found = request.getfixturevalue("source")
        yield found, "public"
        return
    yield request.getfixturevalue("maria"), "shop"


def make(source, *statements: str) -> None:
    source.run(*statements)
    if hasattr(source, "grant_all"):
        source.grant_all()


def rows(source) -> dict[str, Table]:
    mine = Table.objects.filter(database__datasource=source.datasource)
    return {row.name: row for row in mine}


TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, code varchar(9) NOT NULL, n int,"
    " price decimal(10,2), day date, CONSTRAINT one UNIQUE (code))",
    "CREATE TABLE items (a int, b int, PRIMARY KEY (b, a))",
    "CREATE INDEX by_n ON orders (n)",
    "CREATE VIEW v AS SELECT id FROM orders",
)


def test_the_same_tables_are_told_the_same(any_source) -> None:
    source, database = any_source
    make(source, *TABLES)
    job = discover(source.datasource)
    assert (job.state, job.report["tables"], job.done) == (jobs.SUCCEEDED, 3, 3)
    found = rows(source)
    assert {row.database.name for row in found.values()} == {database}
    assert found["items"].record_key == ["b", "a"]
    facts = table_facts(found["orders"])
    assert [c.type for c in facts.schema.columns] == [
        "int", "string", "int", "decimal(10,2)", "date",
    ]  # fmt: skip
    assert [c.nullable for c in facts.schema.columns] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert facts.unique_indexes == (("code",),)
    assert facts.indexed == {"id", "code", "n"}
    assert facts.sees_all_transactions is False
    assert found["v"].status == "UNSUPPORTED"
    assert table_facts(found["v"]).schema.columns[0].source_name == "id"


def test_the_next_look_finds_what_changed(any_source) -> None:
    source, _ = any_source
    make(source, *TABLES)
    discover(source.datasource)
    before = set(Column.objects.values_list("pk", flat=True))
    same = discover(source.datasource)
    assert (same.report["new"], same.report["changed"]) == (0, 0)
    assert set(Column.objects.values_list("pk", flat=True)) == before
    make(
        source,
        "ALTER TABLE orders ADD note varchar(9)",
        "DROP TABLE items",
        "CREATE TABLE fresh (id int)",
    )
    third = discover(source.datasource).report
    assert (third["new"], third["changed"], third["vanished"]) == (1, 1, 1)
    found = rows(source)
    assert found["items"].status == "VANISHED"
    assert found["orders"].schema_version == 2


def test_pages_and_cursor_survive_a_change_of_worker(any_source, monkeypatch) -> None:
    source, database = any_source
    monkeypatch.setattr(services, "PAGE_TABLES", 10)
    make(source, *(f"CREATE TABLE t{n:02d} (id int)" for n in range(25)))
    job = discover(source.datasource)
    assert (job.report["pages"], job.report["tables"]) == (3, 25)
    assert table_at_source(source.datasource, database, "t07") is not None
    assert table_at_source(source.datasource, database, "gone") is None


def test_only_what_is_included_and_not_excluded(any_source) -> None:
    source, database = any_source
    make(source, "CREATE TABLE t (a int)")
    for options, tables in [
        ({"include_databases": [database]}, 1),
        ({"include_databases": ["other"]}, 0),
        ({"exclude_databases": [database]}, 0),
        ({"exclude_databases": ["other"]}, 1),
    ]:
        source.datasource.options = options
        source.datasource.save()
        assert discover(source.datasource).report["tables"] == tables, options


def test_the_kind_mysql_is_read_by_the_same_part(maria) -> None:
    """No MySQL can be had here: its own ways are told in comments only."""
    maria.datasource.kind = "mysql"
    maria.datasource.save()
    make(maria, "CREATE TABLE t (a int)")
    assert discover(maria.datasource).report["tables"] == 1
    assert finish(services.start_test(maria.datasource, by="ann")).state == "SUCCEEDED"


def test_a_wrong_password_ends_both_jobs_with_the_same_code(any_source) -> None:
    from catalog.secrets import encrypt

    source, _ = any_source
    source.datasource.secret = encrypt("wrong")
    source.datasource.save()
    for start in (services.start_test, services.start_discovery):
        job = finish(start(source.datasource, by="ann"))
        assert (job.state, job.error_code) == (jobs.FAILED, "wrong_password")


def test_what_a_user_needs_names_the_user(any_source) -> None:
    source, _ = any_source
    script = kind_named(source.datasource.kind).privileges.script("o'neil", "shop")
    assert "neil" in script
    assert "GRANT" in script
    with pytest.raises(InvalidRequest):
        kind_named("oracle")
