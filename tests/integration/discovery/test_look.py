"""Tables are read again: their columns are new, the rest of the catalogue stays."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.discovery import services
from catalog.models import Table
from core.jobs import pages
from core.models import Job
from tests.integration.discovery.support import discover

pytestmark = pytest.mark.django_db


@pytest.fixture
def seen(source: Any) -> Any:
    with source.link() as link:
        link.execute("CREATE TABLE o (id int PRIMARY KEY); CREATE TABLE other (id int)")
    source.grant_all()
    discover(source.datasource)
    return source


def table_of(source: Any, name: str) -> Table:
    return Table.objects.select_related("database__datasource").get(
        database__datasource=source.datasource, name=name
    )


def ended(job: Job) -> Job:
    pages.advance(job.pk)
    job.refresh_from_db()
    return job


def test_a_look_reads_one_table_and_leaves_the_rest(seen: Any, rung: Any) -> None:
    before = table_of(seen, "o")
    with seen.link() as link:
        link.execute(
            "ALTER TABLE o ADD COLUMN x int; ALTER TABLE other ADD COLUMN y int"
        )
    job = services.start_look([before], by="ann")
    assert services.start_look([before], by="bob").pk == job.pk
    # a discovery of everything is another job, and a look is no part of it
    assert services.start_discovery(seen.datasource, by="ann").pk != job.pk
    done = ended(job)
    assert (done.state, done.report) == ("SUCCEEDED", {"changed": True})
    after = table_of(seen, "o")
    assert list(after.columns.values_list("name", flat=True)) == ["id", "x"]
    assert after.schema_version == before.schema_version + 1
    # by these a discovery under way tells what vanished, and what the login sees
    kept = "sees_all_transactions"
    assert after.seen_at == before.seen_at
    assert after.identity[kept] == before.identity[kept]
    other = table_of(seen, "other")
    assert list(other.columns.values_list("name", flat=True)) == ["id"]
    assert ended(services.start_look([after], by="ann")).report == {"changed": False}


def test_a_look_at_a_table_that_is_gone_fails_and_leaves_that_to_a_discovery(
    seen: Any, rung: Any
) -> None:
    """Of a table that is being swapped a look may find none."""
    with seen.link() as link:
        link.execute("DROP TABLE o")
    job = ended(services.start_look([table_of(seen, "o")], by="ann"))
    assert (job.state, job.error_code) == ("FAILED", "table_gone")
    assert table_of(seen, "o").status == "DISCOVERED"
    begun = Job.objects.get(kind=services.DISCOVER, state="QUEUED")
    assert (begun.subject, begun.requested_by) == (seen.datasource.name, "ann")
    assert ended(begun).state == "SUCCEEDED"
    assert table_of(seen, "o").status == "VANISHED"


def test_many_tables_are_one_job_that_goes_on_where_it_died(
    seen: Any, rung: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shards of a lake table. One that is gone hides no other."""
    with seen.link() as link:
        for number in range(5):
            link.execute(f"CREATE TABLE s{number} (id int)")
    seen.grant_all()
    discover(seen.datasource)
    tables = [table_of(seen, f"s{number}") for number in range(5)]
    with seen.link() as link:
        link.execute("DROP TABLE s0")
        for number in range(1, 5):
            link.execute(f"ALTER TABLE s{number} ADD COLUMN x int")
    monkeypatch.setattr(services, "LOOK_TABLES", 2)
    job = services.start_look(tables, by="ann")
    assert services.start_look(tables, by="bob").pk == job.pk
    assert services.start_look(tables[:1], by="ann").pk != job.pk
    save, killed = services.save_look, []

    def die_once(*given: Any) -> bool:
        if not killed:
            killed.append(save(*given))
            raise KeyboardInterrupt
        return save(*given)

    monkeypatch.setattr(services, "save_look", die_once)
    with pytest.raises(KeyboardInterrupt):
        pages.advance(job.pk)
    assert table_of(seen, "s1").columns.count() == 1
    while not ended(job).is_finished:
        pass
    assert (job.done, job.total) == (5, 5)
    assert (job.state, job.error_code) == ("FAILED", "table_gone")
    assert "public.s0 is not" in job.error_message
    for table in tables[1:]:
        assert table.columns.count() == 2
