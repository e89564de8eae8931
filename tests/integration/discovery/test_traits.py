"""What discovery learns of PostgreSQL's tables besides columns: who else holds rows of
them, and what their keys compare."""

from __future__ import annotations

import pytest

from catalog.schema.source_log import TableLog
from ingest.pipelines.table_facts import table_facts
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
        "CREATE TABLE loose (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE loose_1 PARTITION OF loose FOR VALUES FROM (0) TO (9)",
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
        "loose": ("partitioned table", {"unlogged"}),
        "half": ("table", {"children", "foreign"}),
        "half_1": ("foreign table", {"foreign"}),
    }
    found = {name: table_facts(table(source, name)) for name in wanted}
    assert {n: (f.relation, set(f.traits)) for n, f in found.items()} == wanted
    assert found["plain"].is_standby is False


def test_what_the_log_of_postgresql_has_of_tables(source) -> None:
    source.run(
        "CREATE TABLE keyed (b text, id int PRIMARY KEY,"
        " twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "CREATE TABLE keyless (id int)",
        "CREATE TABLE whole (id int PRIMARY KEY)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE picked (id int PRIMARY KEY, name text NOT NULL UNIQUE)",
        "ALTER TABLE picked REPLICA IDENTITY USING INDEX picked_name_key",
        "CREATE TABLE silent (id int PRIMARY KEY)",
        "ALTER TABLE silent REPLICA IDENTITY NOTHING",
        "CREATE TABLE filtered (id int PRIMARY KEY)",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE alike (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE alike_0 PARTITION OF alike FOR VALUES FROM (0) TO (9)",
        "ALTER TABLE parts REPLICA IDENTITY FULL",
        "CREATE PUBLICATION dba FOR TABLE keyed, whole",
        "CREATE PUBLICATION inserts FOR TABLE picked WITH (publish = 'insert')",
        "CREATE PUBLICATION filtered FOR TABLE filtered WHERE (id > 3)",
    )
    source.grant_all()
    discover(source.datasource)
    no = TableLog(tells_older=True)
    wanted = {
        "keyed": TableLog(
            tells_older=True, identity=("id",), left_out=("twice",), is_published=True
        ),
        "keyless": no,
        "whole": TableLog(tells_older=True, is_full=True, is_published=True),
        "picked": TableLog(tells_older=True, identity=("name",)),
        "silent": no,
        "filtered": TableLog(tells_older=True, identity=("id",)),
        "parts": TableLog(
            tells_older=True, is_full=True, lesser_parts=("public.parts_0",)
        ),
        "alike": TableLog(tells_older=True, identity=("id",)),
    }
    found = {name: table_facts(table(source, name)) for name in wanted}
    assert {name: facts.log for name, facts in found.items()} == wanted
    (lack,) = [x for x in found["keyed"].log_lacks if "receive" in x.reason]
    assert lack.statement.startswith("ALTER ROLE")


def test_what_a_default_gave_to_older_rows_is_known_or_named(source) -> None:
    source.run(
        "CREATE TABLE grown (id int PRIMARY KEY)",
        # which writes every row, so it does not come with the others
        "ALTER TABLE grown ADD d float DEFAULT random()",
        "ALTER TABLE grown ADD a int DEFAULT 7, ADD b timestamp"
        " DEFAULT '2024-01-31 12:00', ADD c int[] DEFAULT '{1,2}', ADD later int,"
        " ADD none text",
        "ALTER TABLE grown ALTER a DROP DEFAULT, ALTER later SET DEFAULT 3",
    )
    discover(source.datasource)
    log = table_facts(table(source, "grown")).log
    assert log is not None
    assert log.older == {"a": "7", "b": "2024-01-31 12:00:00", "c": "{1,2}"}
    assert log.untold == ("d", "later")


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
    forms = table_facts(table(source, "k")).key_forms
    assert set(forms) == {"a", "c"}
    assert "collation" in forms["a"]
    assert "1.00" in forms["c"]
