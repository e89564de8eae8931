"""What discovery reads from a real MariaDB: keys, names, kinds, privileges, types."""

from __future__ import annotations

import pytest

from catalog.models import Table
from catalog.sources.mariadb import discover as mariadb
from catalog.sources.mariadb.discover import MariadbReader
from core import jobs
from core.errors import SluiceError
from tests.integration.discovery.support import READER, discover, table_at_source
from tests.mariadb import quoted
from tests.unit.catalog.sources.test_mariadb_mapping import CARRIED

pytestmark = pytest.mark.django_db
HOSTILE = ["a.b", "a b", "a`b", "a'b", 'a"b', "a\\b", "%", "_", "Größe", "日本", "a%sb"]


def read(maria, name: str, database: str = "shop"):
    with MariadbReader(maria.access()) as reader:
        return reader.table(database, name)


def pages(maria, *, limit: int, **changes):
    with MariadbReader(maria.access(**changes)) as reader:
        after = None
        while True:
            page = reader.page(after, limit=limit)
            yield page.tables
            after = page.next_after
            if after is None:
                return


def all_names(maria, *, limit: int = 100, **changes) -> list[tuple[str, str]]:
    found = pages(maria, limit=limit, **changes)
    return [(t.database, t.name) for page in found for t in page]


def test_a_discovery_fills_the_catalog_and_a_second_changes_nothing(maria) -> None:
    maria.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, at DATETIME(6) COMMENT 'when',"
        " state ENUM('new', 'it''s') NOT NULL, KEY (at)) COMMENT 'all of them'",
        "CREATE VIEW v AS SELECT * FROM orders",
        "CREATE SEQUENCE s",
    )
    job = discover(maria.datasource)
    assert (job.state, job.report["tables"]) == (jobs.SUCCEEDED, 2)
    orders = Table.objects.get(database__name="shop", name="orders")
    assert (orders.comment, orders.record_key, orders.status) == (
        "all of them", ["id"], "DISCOVERED",
    )  # fmt: skip
    columns = [(c.name, c.source_type, c.type, c.comment) for c in orders.columns.all()]
    assert columns == [
        ("id", "int(11)", "int", ""),
        ("at", "datetime(6)", "timestamp_ntz", "when"),
        ("state", "enum('new','it''s')", "string", ""),
    ]
    view = Table.objects.get(database__name="shop", name="v")
    assert (view.status, view.identity["relation"]) == ("UNSUPPORTED", "view")
    again = discover(maria.datasource)
    assert (again.report["new"], again.report["changed"]) == (0, 0)
    maria.run("ALTER TABLE orders ADD note TEXT", "DROP VIEW v")
    third = discover(maria.datasource)
    assert (third.report["changed"], third.report["vanished"]) == (1, 1)


def test_one_table_as_it_is_now(maria) -> None:
    maria.run("CREATE TABLE t (a INT)")
    found = table_at_source(maria.datasource, "shop", "t")
    assert found is not None
    assert found.name == "t"
    for database, name in [("shop", "T"), ("shop", "x"), ("mysql", "user"), ("", "")]:
        assert table_at_source(maria.datasource, database, name) is None


def test_keys_and_indexes(maria) -> None:
    maria.run(
        "CREATE TABLE t (a INT NOT NULL, b VARCHAR(9) NOT NULL, c INT, d INT NOT NULL,"
        " e POINT NOT NULL, PRIMARY KEY (b, a), UNIQUE whole (d, a),"
        " UNIQUE part (b(2), d), UNIQUE hollow (c), KEY many (c, d), KEY part2 (b(3)),"
        " SPATIAL KEY (e))"
    )
    found = read(maria, "t")
    assert found.schema.primary_key == ("b", "a")
    assert found.unique_indexes == (("d", "a"),)
    assert set(found.indexed) == {"b", "c", "d"}
    assert [c.nullable for c in found.schema.columns] == [0, 0, 1, 0, 0]


def test_a_key_over_the_beginning_of_a_column_is_one_over_the_column(maria) -> None:
    maria.run("CREATE TABLE t (a TEXT, PRIMARY KEY (a(10)))")
    assert read(maria, "t").schema.primary_key == ("a",)


@pytest.mark.parametrize(
    "columns",
    [
        "",
        ", s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)",
    ],
)
def test_versioned_tables_are_known_by_their_own_key(maria, columns) -> None:
    maria.run(
        "CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL UNIQUE"
        f"{columns}) WITH SYSTEM VERSIONING"
    )
    found = read(maria, "t")
    assert (found.kind, found.schema.primary_key) == ("table", ("id",))
    assert found.unique_indexes == (("u",),)


def test_invisible_generated_and_partitioned(maria) -> None:
    maria.run(
        "CREATE TABLE t (id INT, hidden INT INVISIBLE, twice INT AS (id * 2) VIRTUAL,"
        " kept INT AS (id * 3) PERSISTENT, PRIMARY KEY (id))"
        " PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO t (id) VALUES (1), (2), (3)",
        "ANALYZE TABLE t",
    )
    found = read(maria, "t")
    names = [c.source_name for c in found.schema.columns]
    assert names == ["id", "hidden", "twice", "kept"]
    assert found.kind == "table"
    assert found.estimated_rows == 3
    assert found.estimated_bytes > 0


def test_hostile_names_go_through_whole(maria) -> None:
    for name in HOSTILE:
        maria.add_database(name)
        maria.run(
            f"CREATE TABLE {quoted(name)} ({quoted(name)} INT PRIMARY KEY)",
            database=name,
        )
    maria.grant("SELECT ON *.*")
    found = all_names(maria, limit=3)
    assert sorted(found) == sorted((name, name) for name in HOSTILE)
    assert found == sorted(found, key=lambda pair: [p.encode() for p in pair])
    with MariadbReader(maria.access()) as reader:
        for name in HOSTILE:
            assert reader.table(name, name).schema.primary_key == (name,)
    for name in ["a'b", "a\\b", "%"]:
        assert all_names(maria, include=(name,)) == [(name, name)]
        assert (name, name) not in all_names(maria, exclude=(name,))


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_meet_without_gap_or_twin(maria, limit) -> None:
    """Names that differ by case only, across databases, whatever the page's size."""
    maria.add_database("Shop")
    maria.grant("SELECT ON Shop.*")
    names = ["A", "B", "a", "b"]
    maria.run(*(f"CREATE TABLE {n} ({n} INT)" for n in names), "CREATE SEQUENCE aa")
    maria.run(*(f"CREATE TABLE {n} (x TEXT)" for n in names), database="Shop")
    maria.add_database("SHOP")
    maria.grant("SELECT ON SHOP.*")
    twins = ["CREATE TABLE a (x INT)", "CREATE TABLE A (x INT)"]
    maria.run(*twins, database="SHOP")
    expected = [("SHOP", "A"), ("SHOP", "a")]
    expected += [(database, n) for database in ("Shop", "shop") for n in names]
    assert all_names(maria, limit=limit) == expected
    assert read(maria, "a").schema.columns[0].source_name == "a"


def test_a_page_holds_a_bounded_number_of_columns(maria, monkeypatch) -> None:
    monkeypatch.setattr(mariadb, "MOST_COLUMNS_PER_PAGE", 5)
    maria.run(*(f"CREATE TABLE t{n} (a INT, b INT, c INT)" for n in range(3)))
    assert [len(page) for page in pages(maria, limit=100)] == [1, 1, 1]


def test_system_databases_and_others_privileges_stay_unseen(maria) -> None:
    maria.add_database("secret")
    maria.run("CREATE TABLE t (a INT)", database="secret")
    with MariadbReader(maria.access()) as reader:
        overview = reader.overview()
    assert overview.databases == ("shop",)
    maria.grant("SELECT ON *.*")
    with MariadbReader(maria.access()) as reader:
        assert reader.overview().databases == ("secret", "shop")


@pytest.mark.parametrize(
    ("grants", "readable"),
    [
        (["SELECT ON shop.*"], True),
        (["SELECT ON `sh%`.*"], True),
        (["SELECT ON shop.t"], True),
        (["SELECT ON *.*"], True),
        (["SELECT (a, b) ON shop.t"], True),
        (["INSERT ON shop.t"], False),
        (["INSERT ON shop.t", "SELECT (a) ON shop.t"], True),
        (["SHOW DATABASES ON *.*", "DELETE ON *.*"], False),
    ],
)
def test_who_may_read_a_table(maria, grants, readable) -> None:
    maria.run("CREATE TABLE t (a INT, b INT)")
    maria.revoke_all()
    maria.grant(*grants)
    assert read(maria, "t").is_readable is readable


def test_columns_that_may_not_be_read_are_hidden(maria) -> None:
    maria.run("CREATE TABLE t (id INT, v INT, secret INT, PRIMARY KEY (id, secret))")
    maria.revoke_all()
    maria.grant("SELECT (id, v) ON shop.t")
    found = read(maria, "t")
    # the source tells of no key to who has rights to columns only
    assert (found.is_readable, found.hides_indexes, found.hidden) == (True, True, ())
    maria.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (secret)")
    assert read(maria, "t").hides_indexes

    maria.grant("REFERENCES ON shop.t")
    found = read(maria, "t")
    assert (found.hides_indexes, found.hidden) == (False, ("secret",))
    assert (found.hidden_key, found.schema.primary_key) == (("secret",), ())
    assert [c.name for c in found.schema.columns] == ["id", "v"]
    maria.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
    assert read(maria, "t").schema.primary_key == ("id",)

    maria.run("ALTER TABLE t DROP PRIMARY KEY")
    assert not read(maria, "t").hides_indexes


def test_a_role_counts_like_a_grant(maria) -> None:
    maria.run("CREATE TABLE t (a INT)")
    maria.revoke_all()
    maria.run("CREATE OR REPLACE ROLE bi", "GRANT SELECT ON shop.* TO bi")
    maria.run("GRANT PROCESS ON *.* TO bi", f"GRANT bi TO {READER}@'%'")
    maria.run(f"SET DEFAULT ROLE bi FOR {READER}@'%'")
    try:
        assert read(maria, "t").is_readable
        with MariadbReader(maria.access()) as reader:
            assert reader.overview().sees_all_transactions
    finally:
        maria.run("DROP ROLE bi")


@pytest.mark.parametrize("granted", [False, True])
def test_whether_others_transactions_are_seen(maria, granted) -> None:
    if granted:
        maria.grant("PROCESS ON *.*")
    with MariadbReader(maria.access()) as reader:
        assert reader.overview().sees_all_transactions is granted


def test_broken_views_and_foreign_engines_do_not_stop_it(maria) -> None:
    maria.run("CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT a FROM t")
    maria.run("RENAME TABLE t TO u")
    names = dict(all_names(maria))
    assert names
    with MariadbReader(maria.access()) as reader:
        page = reader.page(None, limit=10)
    assert {t.name: t.kind for t in page.tables} == {"u": "table", "v": "view"}


def test_the_server_names_its_types_as_the_mapping_expects(maria) -> None:
    """Every type of the mapping's table that this server has, by its own text."""
    unknown = ("cut off", "geomcollection", "COMPRESSED", "int unsigned")
    texts = [text for text, _ in CARRIED if not any(word in text for word in unknown)]
    own = ["date", "datetime(6)", "timestamp(3)", "varchar(9) compressed", "boolean"]
    columns = ", ".join(
        f"c{n} {text} NULL" for n, text in enumerate([*texts, *own]) if text != "year"
    )
    maria.run(f"CREATE TABLE t ({columns})")
    found = read(maria, "t").schema
    expected = dict(CARRIED)
    assert found.unsupported == ()
    for column in found.columns:
        text = [*texts, *own][int(column.source_name[1:])]
        if text in expected:
            assert column.type == expected[text], column
    last = {c.source_type: c.type for c in found.columns[-5:]}
    assert list(last.values()) == [
        "date",
        "timestamp_ntz",
        "timestamp",
        "string",
        "int",
    ]
    assert any("COMPRESSED" in text for text in last)


def test_a_type_longer_than_any_limit_is_kept_whole(maria) -> None:
    values = ",".join(f"'value number {n}'" for n in range(200))
    maria.run(f"CREATE TABLE t (e ENUM({values}))")
    discover(maria.datasource)
    column = Table.objects.get(name="t").columns.get()
    assert column.source_type == f"enum({values})"
    assert column.type == "string"


def test_a_statement_that_takes_too_long_is_given_up(maria, monkeypatch) -> None:
    monkeypatch.setattr(mariadb.mariadb_sql, "COUNT", "SELECT SLEEP(20)")
    access = maria.access(statement_timeout=1)
    with MariadbReader(access) as reader, pytest.raises(SluiceError) as raised:
        reader.overview()
    assert raised.value.code == "source_timeout"


def test_the_session_cannot_write(maria) -> None:
    maria.run("CREATE TABLE t (a INT)")
    maria.grant("ALL ON shop.*")
    with (
        MariadbReader(maria.access()) as reader,
        pytest.raises(SluiceError) as raised,
        reader._statements() as link,
    ):
        link.rows("INSERT INTO shop.t VALUES (1)")
    assert "READ ONLY" in raised.value.facts["raw"]
