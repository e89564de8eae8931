"""A catalog of 20,000 tables: plans use the indexes, statements stay few, pages hold."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.access import grants, users
from catalog.access.policy import Principal
from catalog.access.principals import principal_for
from catalog.datasources import lake_database
from catalog.models import Column, Database, Datasource, Table
from catalog.selectors.lake import lake_tables_matching
from catalog.selectors.lookups import table_at, tables_by_ids
from catalog.selectors.paging import keyset_page
from catalog.selectors.search import search_tables
from catalog.selectors.tables import TableFilter, tables_for
from tests.integration.catalog.conftest import PASSWORD, add_table

TABLES = 20_000
ROOT = Principal("root", is_admin=True)
FILL = """
INSERT INTO catalog_table (database_id, name, source_name, kind, comment, record_key,
  cursor, partition_by, buckets, path, identity, schema_version,
  schema_fingerprint, estimated_rows, estimated_bytes, status, status_reason,
  is_queryable, last_commit_instant, created_at)
SELECT d.id, 'invoice_' || g, 'invoice_' || g, %s, '', '[]', '', '[]', 0, %s,
  '{}', 1, '', 0, 0, 'LIVE', '', true, '', now()
FROM generate_series(1, %s) g JOIN catalog_database d ON d.id = (%s::bigint[])[1 + g %% 10]
"""


@pytest.fixture(scope="module")
def big(django_db_setup, django_db_blocker):
    """Committed once for all tests here, and taken away again."""
    with django_db_blocker.unblock():
        source = Datasource.objects.create(name="vast", kind="postgresql")
        places = [Database(datasource=source, name=f"p{n}") for n in range(10)]
        lake = [lake_database(f"big{n}").pk for n in range(10)]
        ids = [place.pk for place in Database.objects.bulk_create(places)]
        with connection.cursor() as cursor:
            cursor.execute(FILL, ["source", "", TABLES // 2, ids])
            cursor.execute(FILL, ["lake", "/lake/x", TABLES // 2, lake])
            cursor.execute(
                "INSERT INTO catalog_column (table_id, position, name, source_name,"
                " source_type, type, nullable, key, comment)"
                " SELECT id, 1, 'amount', 'amount', 'bigint', 'bigint', true, 0, ''"
                " FROM catalog_table"
            )
        odd = add_table(Database.objects.get(pk=ids[0]), "Customer_Ledger")
        Table.objects.filter(pk=odd.pk).update(comment="Kept for the auditors")
        remark = {"name": "iban_hash", "comment": "Salted digest of the account"}
        Column.objects.filter(table=odd, position=1).update(**remark)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE catalog_table, catalog_column")
        yield odd
        with connection.cursor() as cursor:
            cursor.execute(
                "TRUNCATE catalog_table, catalog_database, catalog_searchterm CASCADE"
            )
        source.delete()
        connection.close()


@pytest.fixture
def ann(big, db):
    users.create_user("ann", PASSWORD, groups=[], by="t")
    grants.grant(principal="user:ann", privilege="select", on="lake.big3", by="t")
    grants.grant(
        principal="user:ann", privilege="discover", on="vast.p0.Customer_Ledger", by="t"
    )
    return principal_for("ann")


def captured(call):
    with CaptureQueriesContext(connection) as seen:
        call()
    return [query["sql"] for query in seen.captured_queries]


def scanned(sql):
    """Names of tables that the plan of this statement reads from end to end."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
        (plan,) = cursor.fetchone()
    found = []

    def walk(node):
        if node["Node Type"] == "Seq Scan":
            found.append(node["Relation Name"])
        for below in node.get("Plans", []):
            walk(below)

    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
    return {name for name in found if name in {"catalog_table", "catalog_column"}}


CALLS = {
    "comment": lambda who: search_tables(who, TableFilter(q="salted"), limit=20),
    "search": lambda who: search_tables(who, TableFilter(q="ledger"), limit=20),
    "fuzzy": lambda who: search_tables(who, TableFilter(q="custmer"), limit=20),
    "short": lambda who: search_tables(who, TableFilter(q="cu"), limit=20),
    "place": lambda who: search_tables(who, TableFilter(q="p0.cust"), limit=20),
    "all tables": lambda who: lake_tables_matching(who, None, None, 100),
    "a beginning": lambda who: lake_tables_matching(who, None, "invoice\\_77%", 100),
    "a middle": lambda who: lake_tables_matching(who, None, "%e\\_777%", 100),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("who", ["root", "ann"])
def test_no_plan_reads_all_tables(what, who, ann):
    principal = ROOT if who == "root" else ann
    statements = captured(lambda: CALLS[what](principal))
    assert len(statements) <= 3
    for sql in statements:
        assert not scanned(sql), sql


@pytest.mark.parametrize("order", [("name", "id"), ("-name", "-id")])
def test_a_deep_page_starts_where_it_is(order, big, db):
    first = keyset_page(tables_for(ROOT), order=order, size=50, load=tables_by_ids)
    rows = tables_for(ROOT)
    (sql, _) = captured(
        lambda: keyset_page(
            rows, order=order, size=50, token=first.next_page_token, load=tables_by_ids
        )
    )
    assert not scanned(sql)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert re.search(r"Index Cond: \(+name", plan), plan


def test_pages_are_stable_under_inserts(big, ann):
    """Nothing twice, nothing missed, whatever is added behind or before."""
    place = lake_database("big3")
    seen, token, turn = [], None, 0
    while True:
        page = keyset_page(
            tables_for(ann), order=("name", "id"), size=300, token=token,
            load=tables_by_ids,
        )  # fmt: skip
        seen += [table.name for table in page.items]
        token = page.next_page_token
        if token is None:
            break
        turn += 1
        add_table(place, f"0before{turn}", lake=True)
    assert len(seen) == len(set(seen)) == TABLES // 20 + 1
    assert turn == 3


@pytest.mark.parametrize(
    ("q", "field", "text"),
    [
        ("customer_ledger", "name", "Customer_Ledger"),
        ("CUST", "name", "Customer_Ledger"),
        ("ledger", "name", "Customer_Ledger"),
        ("custmer", "name", "Customer_Ledger"),
        ("ledger cust", "name", "Customer_Ledger"),
        ("iban_hash", "column", "iban_hash"),
        ("ban_ha", "column", "iban_hash"),
        ("iban_hsh", "column", "iban_hash"),
        ("AUDITORS", "comment", "Kept for the auditors"),
        ("auditrs", "comment", "Kept for the auditors"),
        ("digest SALTED", "comment", "iban_hash: Salted digest of the account"),
        ("saltde", "comment", "iban_hash: Salted digest of the account"),
        ("p0.cust", "name", "Customer_Ledger"),
    ],
)
def test_search_says_what_matched(q, field, text, big, ann):
    for who in (ROOT, ann):
        hit = search_tables(who, TableFilter(q=q), limit=5).items[0]
        assert (hit.table_id, hit.field, hit.text) == (big.pk, field, text)


def test_search_is_ranked_and_shows_no_more_than_may_be_seen(big, ann):
    found = search_tables(ROOT, TableFilter(q="invoice_77"), limit=3)
    assert [hit.text for hit in found.items] == [
        "invoice_77",
        "invoice_77",
        "invoice_770",
    ]
    assert found.has_more
    mine = search_tables(ann, TableFilter(q="invoice_7"), limit=500)
    names = {
        row.database.name for row in tables_by_ids([h.table_id for h in mine.items])
    }
    assert names == {"big3"}
    nobody = Principal("nobody")
    assert not search_tables(nobody, TableFilter(q="invoice"), limit=5).items
    for nothing in ["100%", "\x00", " ", "qqq_zzz_xxx", "\\", "'", "q" * 5000]:
        assert not search_tables(ROOT, TableFilter(q=nothing), limit=5).items
    only = TableFilter(q="invoice_77", kind="source", datasource="vast", database="p7")
    found = search_tables(ROOT, only, limit=50).items
    assert [hit.text.startswith("invoice_77") for hit in found[:11]] == [True] * 11
    rows = tables_by_ids([hit.table_id for hit in found])
    assert {str(row.database) for row in rows} == {"vast.p7"}


def test_search_goes_on_page_by_page(big, db):
    seen, offset = [], 0
    while True:
        page = search_tables(ROOT, TableFilter(q="invoice_7"), limit=300, offset=offset)
        seen += [hit.table_id for hit in page.items]
        offset += 300
        if not page.has_more:
            break
    assert len(seen) == len(set(seen)) == 1_000


def test_a_look_up_sees_what_decide_says(big, ann):
    assert table_at(ann, "vast", "p0", "Customer_Ledger").pk == big.pk
    assert table_at(ann, "LAKE", "Big3", "INVOICE_3").columns.all()[0].name == "amount"
    for place in [("lake", "big4", "invoice_4"), ("vast", "p0", "invoice_10")]:
        assert table_at(ROOT, *place)
        with pytest.raises(Exception, match="there is no table"):
            table_at(ann, *place)


def test_rest_search_takes_four_statements_and_pages(admin, big):
    path = f"tables?q={quote('invoice_7')}&page_size=2"
    statements = captured(lambda: admin("GET", path))
    assert len(statements) <= 4
    first = admin("GET", path).json()
    assert first["items"][0]["match"] == {"field": "name", "text": "invoice_7"}
    more = admin("GET", f"{path}&page_token={quote(first['next_page_token'])}").json()
    assert {row["id"] for row in first["items"]}.isdisjoint(
        row["id"] for row in more["items"]
    )
