"""What discovery reads from a real server: keys, hostile names, kinds, sizes."""

from __future__ import annotations

import pytest

from catalog.discovery.choosing import uncarried
from catalog.models import Database, Table
from catalog.schema.naming import lake_columns, lake_tables
from catalog.sources.postgresql import discover as postgresql
from core import jobs
from ingest.pipelines.table_facts import facts_of, table_facts
from tests.integration.discovery.support import READER, discover, table, table_at_source

pytestmark = pytest.mark.django_db


def test_keys_indexes_comments_and_nullability(source) -> None:
    source.run(
        """CREATE TABLE t (a int, b int NOT NULL, c int NOT NULL, d int, e text NOT NULL,
                            PRIMARY KEY (c, a))""",
        "CREATE UNIQUE INDEX ON t (e, b)",
        "CREATE UNIQUE INDEX ON t (d)",
        "CREATE UNIQUE INDEX ON t (lower(e))",
        "CREATE UNIQUE INDEX ON t (b) WHERE b > 0",
        "CREATE UNIQUE INDEX ON t (b) INCLUDE (d)",
        "CREATE INDEX ON t (d, e)",
        "COMMENT ON TABLE t IS 'It''s a table'",
        "COMMENT ON COLUMN t.b IS 'b: 订单'",
        "ALTER TABLE t ADD gone int",
        "ALTER TABLE t DROP gone",
    )
    source.grant_all()
    discover(source.datasource)
    row = table(source, "t")
    assert row.record_key == ["c", "a"]
    assert row.comment == "It's a table"
    facts = table_facts(row)
    assert facts.schema.primary_key == ("c", "a")
    assert set(facts.unique_indexes) == {("e", "b"), ("b",)}
    assert facts.indexed == {"c", "e", "d", "b"}
    assert [c.source_name for c in facts.schema.columns] == ["a", "b", "c", "d", "e"]
    assert [c.nullable for c in facts.schema.columns] == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert facts.schema.column("b").comment == "b: 订单"
    assert facts.fingerprint == row.schema_fingerprint != ""
    assert facts.sees_all_transactions is False
    assert table_at_source(source.datasource, "public", "t").schema == facts.schema
    assert table_at_source(source.datasource, "public", "nope") is None


def test_types_have_their_names_whatever_a_database_sets(own_source) -> None:
    with own_source.link() as link:
        link.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(9), a text[])")
        name = link.info.dbname
        link.execute(f'ALTER DATABASE "{name}" SET quote_all_identifiers = on')
    own_source.grant_all()
    discover(own_source.datasource)
    schema = table_facts(table(own_source, "t")).schema
    types = [column.source_type for column in schema.columns]
    assert types == ["integer", "character varying(9)", "text[]"]


HOSTILE = [
    "plain", "UPPER", "Upper", "upper", "with space", "with.dot", 'quo"te', "quo'te",
    "back\\slash", "back`tick", "订单", "order", "select", "user", "%s", "%(oids)s",
    "{}", "$1", "a;b", "--", "/*", "é", "e\u0301", "x" * 63, "订" * 21, "_", "-", "1a",
    "tab\there", "new\nline", "_hoodie_commit_time", "_sluice_seq", "😀", "\u202eabc",
]  # fmt: skip


def test_a_constraint_that_is_not_valid_keeps_no_column_from_null(source) -> None:
    """From PostgreSQL 18 on: rows of before may have NULL, so it is no key."""
    source.run(
        "CREATE TABLE t (k int, v int)",
        "INSERT INTO t VALUES (NULL, 1), (NULL, 2), (3, 3)",
        "ALTER TABLE t ADD CONSTRAINT filled NOT NULL k NOT VALID",
        "CREATE UNIQUE INDEX ON t (k)",
    )
    source.grant_all()
    discover(source.datasource)
    facts = table_facts(table(source, "t"))
    assert facts.schema.column("k").nullable
    assert facts.unique_indexes == ()
    source.run(
        "DELETE FROM t WHERE k IS NULL", "ALTER TABLE t VALIDATE CONSTRAINT filled"
    )
    discover(source.datasource)
    assert table_facts(table(source, "t")).unique_indexes == (("k",),)


def test_hostile_names_of_schemas_tables_and_columns(source) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    with source.link() as link:
        for name in HOSTILE:
            link.execute(f"CREATE SCHEMA {quoted(name)}")
            link.execute(
                f"CREATE TABLE {quoted(name)}.{quoted(name)} ({quoted(name)} int)"
            )
    columns = ", ".join(f"{quoted(name)} int" for name in HOSTILE)
    source.run(*(f"CREATE TABLE {quoted(name)} ({columns})" for name in HOSTILE))
    source.grant_all("public", *HOSTILE)
    job = discover(source.datasource)
    assert (job.state, job.done) == (jobs.SUCCEEDED, 2 * len(HOSTILE))
    mine = Table.objects.filter(database__datasource=source.datasource)
    found = mine.values_list("database__name", "name")
    assert set(found) == {(n, n) for n in HOSTILE} | {("public", n) for n in HOSTILE}
    row = table(source, "select")
    assert [c.source_name for c in row.columns.all()] == HOSTILE
    assert len(set(lake_columns(HOSTILE).values())) == len(HOSTILE)
    assert len(set(lake_tables(found).values())) == 2 * len(HOSTILE)
    for name in HOSTILE:
        assert table_at_source(source.datasource, name, name) is not None


def test_many_columns(source) -> None:
    many = ", ".join(f"c{n} int" for n in range(300))
    most = ", ".join(f"c{n} int" for n in range(1600))
    source.run(f"CREATE TABLE many ({many})", f"CREATE TABLE most ({most})")
    source.grant_all()
    discover(source.datasource)
    assert table(source, "many").columns.count() == 300
    assert table(source, "most").columns.count() == 1600
    assert list(
        table(source, "many").columns.values_list("position", flat=True)
    ) == list(range(1, 301))


def test_wide_tables_make_short_pages(source, monkeypatch) -> None:
    monkeypatch.setattr(postgresql, "MOST_COLUMNS_PER_PAGE", 25)
    ten = ", ".join(f"c{n} int" for n in range(10))
    thirty = ", ".join(f"c{n} int" for n in range(30))
    source.run(*(f"CREATE TABLE t{n} ({ten})" for n in range(5)))
    source.run(f"CREATE TABLE t2b ({thirty})")
    job = discover(source.datasource)
    assert (job.done, job.report["pages"]) == (6, 4)


def test_kinds_partitions_and_what_is_not_carried(source) -> None:
    source.run(
        "CREATE TABLE parted (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY RANGE (at)",
        "CREATE TABLE parted_1a PARTITION OF parted_1 DEFAULT",
        "CREATE TABLE parted_2 PARTITION OF parted DEFAULT",
        "INSERT INTO parted SELECT n, DATE '2024-01-01' + n FROM generate_series(1, 5000) n",
        "ANALYZE parted_1a", "ANALYZE parted_2",
        "CREATE VIEW v AS SELECT * FROM parted",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM parted",
        "CREATE TABLE empty_table (a int)",
        "CREATE TABLE no_columns ()",
        "CREATE UNLOGGED TABLE fresh AS SELECT n, repeat('x', 100) t FROM generate_series(1, 5000) n",
    )  # fmt: skip
    source.grant_all()
    discover(source.datasource)
    mine = Table.objects.filter(database__datasource=source.datasource)
    kinds = dict(mine.values_list("name", "identity__relation"))
    assert kinds == {
        "parted": "partitioned table",
        "v": "view",
        "m": "materialized view",
        "empty_table": "table",
        "no_columns": "table",
        "fresh": "table",
    }
    statuses = dict(mine.values_list("name", "status"))
    assert {n for n, s in statuses.items() if s == "UNSUPPORTED"} == {"v", "m"}
    assert "view" in table(source, "v").status_reason
    parted = table(source, "parted")
    assert parted.record_key == ["id", "at"]
    assert 4500 <= parted.estimated_rows <= 5500
    assert parted.estimated_bytes >= 5000 * 30
    fresh = table(source, "fresh")
    assert 1000 <= fresh.estimated_rows <= 25_000  # never analysed: from its size
    assert (table(source, "empty_table").estimated_rows) == 0


def test_tables_that_may_not_be_read_are_listed_with_the_reason(source) -> None:
    source.run(
        "CREATE SCHEMA closed",
        "CREATE TABLE closed.t (a int)",
        "CREATE TABLE t (a int)",
    )
    discover(source.datasource)
    for database in ("closed", "public"):
        row = table(source, "t", database)
        assert row.status == "NO_PRIVILEGE"
        assert "SELECT" in row.status_reason
    source.grant_all("closed", "public")
    discover(source.datasource)
    assert table(source, "t", "closed").status == "DISCOVERED"
    assert table(source, "t", "closed").status_reason == ""


def test_columns_that_may_not_be_read_are_hidden(source) -> None:
    source.run(
        'CREATE TABLE t (id int PRIMARY KEY, v text, "se cret" text UNIQUE)',
        "CREATE TABLE keyed (a int, v text, b int, PRIMARY KEY (b, a))",
        "CREATE SCHEMA closed",
        "CREATE TABLE closed.t (id int, secret text)",
        f"GRANT SELECT (id, v) ON t TO {READER}",
        f"GRANT SELECT (a, v) ON keyed TO {READER}",
        f"GRANT SELECT (id) ON closed.t TO {READER}",
    )
    discover(source.datasource)
    t, keyed, closed = (
        table(source, name, schema)
        for name, schema in (("t", "public"), ("keyed", "public"), ("t", "closed"))
    )
    assert (t.status, t.record_key) == ("DISCOVERED", ["id"])
    assert [c.name for c in t.columns.all()] == ["id", "v"]
    grant = f'GRANT SELECT ("se cret") ON "public"."t" TO "{READER}";'
    assert grant in t.status_reason
    assert table_facts(t).hidden == ("se cret",)
    assert table_facts(t).unique_indexes == ()

    # the rest of a key would take several rows for one
    assert (keyed.status, keyed.record_key) == ("DISCOVERED", [])
    assert table_facts(keyed).hidden_key == ("b", "a")
    assert closed.status == "NO_PRIVILEGE"  # no right to its schema
    assert [c.name for c in closed.columns.all()] == ["id", "secret"]

    (facts,) = facts_of([t])
    assert (facts.hidden, facts.grant_of(facts.hidden)) == (("se cret",), grant)

    source.run(grant)
    discover(source.datasource)
    t = table(source, "t")
    assert (t.status_reason, table_facts(t).hidden) == ("", ())
    assert [c.name for c in t.columns.all()] == ["id", "v", "se cret"]


def test_a_table_whose_rows_are_hidden_cannot_be_synced(source) -> None:
    source.run(
        "CREATE TABLE t (a int)",
        "CREATE TABLE u (a int)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON t FOR SELECT USING (a > 1)",
    )
    source.grant_all()
    discover(source.datasource)
    row = table(source, "t")
    assert row.status == "NO_PRIVILEGE"
    assert "row security" in row.status_reason
    told = uncarried("public", "t", status=row.status, reason=row.status_reason,
                     login=("postgresql", "reader"))  # fmt: skip
    assert 'ALTER ROLE "reader" BYPASSRLS' in told.way_out
    assert table(source, "u").status == "DISCOVERED"


def test_include_and_exclude_reach_the_source(source) -> None:
    for name in ("a", "b", "c"):
        source.run(f"CREATE SCHEMA {name}", f"CREATE TABLE {name}.t (x int)")
    source.set(options={"include_databases": ["a", "b"], "exclude_databases": ["b"]})
    job = discover(source.datasource)
    assert job.done == 1
    names = Database.objects.filter(datasource=source.datasource)
    assert list(names.values_list("name", flat=True)) == ["a"]


def test_schemas_without_tables_are_listed(source) -> None:
    source.run("CREATE SCHEMA later")
    discover(source.datasource)
    names = Database.objects.filter(datasource=source.datasource)
    assert set(names.values_list("name", flat=True)) == {"public", "later"}
