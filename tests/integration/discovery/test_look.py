"""One table is read again: its columns are new, the rest of the catalogue stays."""

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
    job = services.start_look(before, by="ann")
    assert services.start_look(before, by="bob").pk == job.pk
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
    assert ended(services.start_look(after, by="ann")).report == {"changed": False}


def test_a_look_at_a_table_that_is_gone_fails_and_changes_nothing(
    seen: Any, rung: Any
) -> None:
    with seen.link() as link:
        link.execute("DROP TABLE o")
    job = ended(services.start_look(table_of(seen, "o"), by="ann"))
    assert (job.state, job.error_code) == ("FAILED", "table_gone")
    assert table_of(seen, "o").status == "DISCOVERED"
