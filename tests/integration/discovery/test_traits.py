"""What discovery learns of PostgreSQL's tables besides columns: who else holds rows of
them, and what their keys compare."""

from __future__ import annotations

import pytest

from catalog.discovery.facts import source_facts
from tests.integration.discovery.support import discover, table

pytestmark = pytest.mark.django_db


def test_tables_of_postgresql(source) -> None:
    source.run(
        "CREATE FOREIGN DATA WRAPPER w",
        "CREATE SERVER other FOREIGN DATA WRAPPER w",
        "CREATE TABLE plain (id int PRIMARY KEY)",
        "CREATE UNLOGGED TABLE fleeting (id int PRIMARY KEY)",
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child () INHERITS (parent)",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE mixed (id int) PARTITION BY RANGE (id)",
        "CREATE FOREIGN TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (0) TO (9)"
        " SERVER other",
        "CREATE TABLE half (id int)",
        "CREATE FOREIGN TABLE half_1 () INHERITS (half) SERVER other",
    )
    source.grant_all()
    discover(source.datasource)
    wanted = {
        "plain": ("table", set()),
        "fleeting": ("table", {"unlogged"}),
        "parent": ("table", {"children"}),
        "child": ("table", set()),
        "parts": ("partitioned table", set()),
        "mixed": ("partitioned table", {"foreign"}),
        "half": ("table", {"children", "foreign"}),
        "half_1": ("foreign table", {"foreign"}),
    }
    found = {name: source_facts(table(source, name)) for name in wanted}
    assert {n: (f.relation, set(f.traits)) for n, f in found.items()} == wanted
    assert found["plain"].is_standby is False


def test_keys_of_postgresql_that_compare_more_widely_than_bytes(source) -> None:
    source.run(
        'CREATE COLLATION loose FROM "C"',
        "CREATE DOMAIN amount AS numeric",
        "CREATE TABLE k (a text COLLATE loose, b text, c amount, d int,"
        " other numeric, PRIMARY KEY (a, b, c, d))",
        # the server of these tests is built without ICU, which alone can declare it
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'loose'",
    )
    source.grant_all()
    discover(source.datasource)
    forms = source_facts(table(source, "k")).key_forms
    assert set(forms) == {"a", "c"}
    assert "collation" in forms["a"]
    assert "1.00" in forms["c"]
