"""What the gateway asks: places, patterns, columns; filtered, in few statements."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.access import grants, users
from catalog.access.principals import principal_for
from catalog.datasources import lake_database
from catalog.models import Table
from catalog.selectors.lake import (
    LakeLocation,
    lake_columns_of,
    lake_columns_page,
    lake_databases_matching,
    lake_table_location,
    lake_tables_matching,
)
from tests.integration.catalog.conftest import PASSWORD, add_table

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(shop):
    for database in ["hr", "shop", "shop_x"]:
        for table in ["orders", "o_ders", "people"]:
            add_table(lake_database(database), table, lake=True)


@pytest.fixture
def ann(lake):
    users.create_user("ann", PASSWORD, groups=["bi"], by="t")
    grants.grant(principal="group:bi", privilege="select", on="lake.shop", by="t")
    grants.grant(
        principal="user:ann", privilege="discover", on="lake.hr.people", by="t"
    )
    return principal_for("ann")


@pytest.fixture
def root(lake):
    users.ensure_admin("root", PASSWORD)
    return principal_for("root")


def names(found):
    return [f"{table.database}.{table.name}" for table in found]


def test_a_place_is_given_for_queryable_tables_only(lake):
    assert lake_table_location("SHOP", "Orders") == LakeLocation("/lake/shop/orders", 1)
    assert lake_table_location("shop", "none") is None
    assert lake_table_location("public", "orders") is None
    Table.objects.filter(database__name="shop", name="orders").update(
        is_queryable=False
    )
    assert lake_table_location("shop", "orders") is None


def test_patterns_match_as_jdbc_says(root):
    def found(schema, table):
        return names(lake_tables_matching(root, schema, table, 100))

    assert len(found(None, None)) == 9
    assert found("shop", "o\\_ders") == ["shop.o_ders"]
    assert found("shop", "o_ders") == ["shop.o_ders", "shop.orders"]
    assert found("shop_", "%") == []
    assert found("shop%", "peo*") == ["shop.people", "shop_x.people"]
    assert found("SHOP", "ORDERS") == ["shop.orders"]
    assert found("shop'--", "%") == []


def test_only_what_may_be_seen_is_listed(ann):
    assert names(lake_tables_matching(ann, None, None, 100)) == [
        "hr.people",
        "shop.o_ders",
        "shop.orders",
        "shop.people",
    ]
    assert lake_databases_matching(ann, None, limit=10) == ["hr", "shop"]
    assert lake_columns_of(ann, "hr", "orders") == []
    assert lake_columns_of(ann, "hr", "people")


def test_pages_continue_after_a_table(root):
    seen, after = [], None
    while page := lake_tables_matching(root, None, None, 2, after):
        seen += names(page)
        after = (page[-1].database, page[-1].name)
    assert seen == names(lake_tables_matching(root, None, None, 100))


def test_columns_are_those_of_select_star_in_order(root):
    columns = lake_columns_of(root, "shop", "orders")
    assert [c.name for c in columns] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "id",
        "note",
        "_sluice_seq",
        "_sluice_deleted",
    ]
    assert [c.position for c in columns] == list(range(1, 10))
    only = lake_columns_page(root, ("shop", "orders", "N%"), 10)[0]
    assert [(c.name, c.position) for c in only] == [("note", 7)]


@pytest.mark.parametrize("who", ["ann", "root"])
def test_look_ups_take_few_statements_whatever_the_size(who, request):
    principal = request.getfixturevalue(who)

    def statements(call):
        with CaptureQueriesContext(connection) as seen:
            call()
        return len(seen)

    assert statements(lambda: lake_table_location("shop", "orders")) == 1
    assert statements(lambda: lake_databases_matching(principal, "%", limit=9)) == 1
    assert statements(lambda: lake_tables_matching(principal, "%", "%", 9)) == 1
    at_most = 4  # with grants and rules of the reader
    assert (
        statements(lambda: lake_columns_page(principal, ("%", "%", None), 9)) <= at_most
    )
    assert statements(lambda: principal_for(who)) == 1
