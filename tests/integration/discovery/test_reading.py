"""What discovery reads from a real server: types, keys, hostile names, sizes."""

from __future__ import annotations

import re

import psycopg
import pytest

from catalog.discovery import postgresql, services
from catalog.discovery.facts import source_facts
from catalog.models import Column, Database, SchemaVersion, Table
from catalog.schema.naming import lake_columns, lake_tables
from core import jobs
from core.errors import TransientError
from tests.integration.discovery.support import discover

pytestmark = pytest.mark.django_db


def table(source, name: str, database: str = "public") -> Table:
    return Table.objects.get(
        database__datasource=source.datasource, database__name=database, name=name
    )


def types(row: Table) -> dict[str, tuple[str, str]]:
    return {c.source_name: (c.source_type, c.type) for c in row.columns.all()}


def test_types_domains_enums_and_arrays(source) -> None:
    source.run(
        "CREATE TYPE mood AS ENUM ('good', 'it''s')",
        "CREATE TYPE pair AS (a int, b int)",
        "CREATE DOMAIN price AS numeric(10,2) CHECK (VALUE >= 0)",
        "CREATE DOMAIN cheap AS price CHECK (VALUE < 10)",
        "CREATE DOMAIN tags AS text[]",
        "CREATE DOMAIN grid AS int[]",
        """CREATE TABLE t (
            a bigserial, b boolean, c smallint, d numeric(12,3), e numeric,
            f numeric(60,20), g numeric(10,-2), h varchar(20), i char(5), j text,
            k bytea, l date, m timestamp(3), n timestamptz, o time, p uuid, q json,
            r jsonb, s mood, t price, u cheap, v tags, w text[], x price[],
            y mood[], z int[][], aa money, bb interval, cc pair, dd int4range,
            ee inet, ff oid, gg real, hh double precision, ii "char", jj name,
            kk cheap[], ll grid[], mm timestamp[], nn xml, oo pair[], pp timetz,
            qq bit(3), rr int GENERATED ALWAYS AS (c + 1) STORED)""",
    )
    source.grant_all()
    discover(source.datasource)
    assert types(table(source, "t")) == {
        "a": ("bigint", "bigint"),
        "b": ("boolean", "boolean"),
        "c": ("smallint", "int"),
        "d": ("numeric(12,3)", "decimal(12,3)"),
        "e": ("numeric", "string"),
        "f": ("numeric(60,20)", "string"),
        "g": ("numeric(10,-2)", "decimal(12,0)"),
        "h": ("character varying(20)", "string"),
        "i": ("character(5)", "string"),
        "j": ("text", "string"),
        "k": ("bytea", "binary"),
        "l": ("date", "date"),
        "m": ("timestamp(3) without time zone", "timestamp_ntz"),
        "n": ("timestamp with time zone", "timestamp"),
        "o": ("time without time zone", "string"),
        "p": ("uuid", "string"),
        "q": ("json", "string"),
        "r": ("jsonb", "string"),
        "s": ("public.mood", "string"),
        "t": ("numeric(10,2)", "decimal(10,2)"),
        "u": ("numeric(10,2)", "decimal(10,2)"),
        "v": ("text[]", "array<string>"),
        "w": ("text[]", "array<string>"),
        "x": ("numeric(10,2)[]", "array<decimal(10,2)>"),
        "y": ("public.mood[]", "array<string>"),
        "z": ("integer[]", ""),
        "aa": ("money", ""),
        "bb": ("interval", ""),
        "cc": ("public.pair", ""),
        "dd": ("int4range", ""),
        "ee": ("inet", ""),
        "ff": ("oid", "bigint"),
        "gg": ("real", "float"),
        "hh": ("double precision", "double"),
        "ii": ('"char"', ""),
        "jj": ("name", "string"),
        "kk": ("numeric(10,2)[]", "array<decimal(10,2)>"),
        "ll": ("integer[][]", ""),
        "mm": ("timestamp without time zone[]", "array<timestamp_ntz>"),
        "nn": ("xml", ""),
        "oo": ("public.pair[]", ""),
        "pp": ("time with time zone", ""),
        "qq": ("bit(3)", ""),
        "rr": ("integer", "int"),
    }


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
    facts = source_facts(row)
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
    assert (
        services.table_at_source(source.datasource, "public", "t").schema
        == facts.schema
    )
    assert services.table_at_source(source.datasource, "public", "nope") is None


HOSTILE = [
    "plain", "UPPER", "Upper", "upper", "with space", "with.dot", 'quo"te', "quo'te",
    "back\\slash", "back`tick", "订单", "order", "select", "user", "%s", "%(oids)s",
    "{}", "$1", "a;b", "--", "/*", "é", "e\u0301", "x" * 63, "订" * 21, "_", "-", "1a",
    "tab\there", "new\nline", "_hoodie_commit_time", "_sluice_seq", "😀", "\u202eabc",
]  # fmt: skip


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
        assert services.table_at_source(source.datasource, name, name) is not None


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


def test_row_security_is_said(source) -> None:
    source.run(
        "CREATE TABLE t (a int)",
        "CREATE TABLE u (a int)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON t FOR SELECT USING (a > 1)",
    )
    source.grant_all()
    discover(source.datasource)
    assert "row security" in table(source, "t").status_reason
    assert table(source, "u").status_reason == ""


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
        "ALTER TABLE a ADD y money", "DROP TABLE c", "COMMENT ON COLUMN b.x IS 'new'"
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
    discover(source.datasource, refresh=True)
    assert not column_ids & set(Column.objects.values_list("pk", flat=True))
    assert SchemaVersion.objects.filter(table=c).count() == 2


def test_a_status_of_somebody_else_stays(source) -> None:
    source.run("CREATE TABLE t (x int)")
    discover(source.datasource)
    Table.objects.filter(pk=table(source, "t").pk).update(status="LIVE")
    discover(source.datasource)
    assert table(source, "t").status == "LIVE"


def test_a_lock_at_the_source_does_not_stop_the_reading(source) -> None:
    source.run(
        "CREATE TABLE t AS SELECT n FROM generate_series(1, 5000) n", "ANALYZE t"
    )
    with source.link() as holder, holder.transaction():
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        job = discover(source.datasource)
    assert job.state == jobs.SUCCEEDED
    assert table(source, "t").estimated_rows == 5000


def test_the_session_writes_nothing_and_leaves_nothing_behind(source) -> None:
    source.run("CREATE TABLE t (x int)", "GRANT ALL ON t TO PUBLIC")
    with services.reader_for(source.datasource) as reader:
        with (
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
            reader._link.transaction(),
        ):
            reader._link.execute("INSERT INTO t VALUES (1)")
        with source.link() as link:
            (name,) = link.execute(
                "SELECT application_name FROM pg_stat_activity WHERE datname = %s"
                " AND usename = 'sluice_reader'",
                [source.name],
            ).fetchone()
    assert name == "sluice discovery"
    with source.link() as link:
        rows = link.execute(
            "SELECT 1 FROM pg_stat_activity WHERE usename = 'sluice_reader'"
        )
        assert rows.fetchall() == []


def test_a_server_that_stops_answering_is_left(source, monkeypatch) -> None:
    """Its own statement time-out cannot help then; the client hangs up."""
    from catalog.discovery import connection, postgresql_sql

    monkeypatch.setattr(connection, "HANG_UP_AFTER", 0)
    monkeypatch.setattr(
        postgresql_sql,
        "SETTINGS",
        postgresql_sql.SETTINGS.replace("%(statement_ms)s", "'0'"),
    )
    monkeypatch.setattr(
        postgresql_sql, "COUNT", "SELECT count(*), pg_sleep(60) IS NULL"
    )
    reader = postgresql.PostgresReader(source.access(statement_timeout=1))
    with pytest.raises(TransientError) as raised, reader:
        reader.overview()
    assert raised.value.code == "connection_lost"


def test_statements_per_page_do_not_grow_with_tables(
    source, django_assert_max_num_queries, monkeypatch
) -> None:
    source.run(
        *(f"CREATE TABLE t{n} (id int PRIMARY KEY, a text, b int)" for n in range(60))
    )
    source.run("CREATE TABLE p (a int) PARTITION BY LIST (a)")
    sent: list[str] = []
    real = psycopg.Connection.execute

    def counted(self, query, *args, **kwargs):
        sent.append(re.sub(r"\s+", " ", str(query))[:40])
        return real(self, query, *args, **kwargs)

    job = services.start_discovery(source.datasource, by="ann")
    with monkeypatch.context() as patch, django_assert_max_num_queries(32):
        patch.setattr(psycopg.Connection, "execute", counted)
        services.advance_discovery(job.pk)
    job.refresh_from_db()
    assert job.state == jobs.SUCCEEDED
    assert job.done == 61
    assert len(sent) <= 8, sent
