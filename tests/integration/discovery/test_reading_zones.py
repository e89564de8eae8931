"""How far the clock of a server's zone is from UTC's is known before the plan."""

from __future__ import annotations

import pytest

from catalog.sources.mariadb.discover import MariadbReader
from catalog.sources.postgresql.discover import PostgresReader
from ingest.pipelines.table_facts import table_facts
from tests.integration.discovery.support import discover, table

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("zone", "delay"),
    [("UTC", 0), ("Asia/Kolkata", 19_800), ("America/New_York", 18_000)],
)
def test_the_zone_of_a_postgresql_is_seen(own_source, zone, delay) -> None:
    own_source.run(f"ALTER DATABASE {own_source.name} SET timezone = '{zone}'")
    with PostgresReader(own_source.access()) as reader:
        assert reader.overview().zone_delay == delay


@pytest.mark.parametrize(("zone", "delay"), [("+00:00", 0), ("+05:30", 19_800)])
def test_the_zone_of_a_mariadb_is_seen(maria, zone, delay) -> None:
    maria.run(f"SET GLOBAL time_zone = '{zone}'")
    try:
        with MariadbReader(maria.access()) as reader:
            assert reader.overview().zone_delay == delay
    finally:
        maria.run("SET GLOBAL time_zone = 'SYSTEM'")


def test_a_discovered_table_has_it(own_source) -> None:
    own_source.run(
        "CREATE TABLE t (id int PRIMARY KEY, updated_at timestamp NOT NULL)",
        f"ALTER DATABASE {own_source.name} SET timezone = 'Asia/Kolkata'",
    )
    own_source.grant_all()
    discover(own_source.datasource)
    assert table_facts(table(own_source, "t")).zone_delay == 19_800
