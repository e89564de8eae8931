"""Tables of live sources as engines get them: for whom, and with what."""

from __future__ import annotations

import pytest

from catalog.access import grants, policy_feed, users
from catalog.access.principals import principal_for
from catalog.models import Column, Table
from catalog.secrets import encrypt
from catalog.selectors.live import (
    live_columns,
    live_columns_matching,
    live_names,
    live_table,
    live_tables_matching,
)
from core.errors import SluiceError

pytestmark = pytest.mark.django_db
ORDERS = ("shop", "public", "orders")


@pytest.fixture
def source(shop):
    shop.host = "127.0.0.1"
    shop.secret = encrypt("pw-1")
    shop.save()
    return shop


def found(*name, user="ann"):
    return live_table(principal_for(user), *(name or ORDERS))


def grant_in_part():
    """One column to ann, the names of a database to a group of hers."""
    grants.grant(
        principal="user:ann",
        privilege="select",
        on="shop.public.orders",
        columns=["id"],
        by="t",
    )
    grants.grant(principal="group:bi", privilege="discover", on="shop.`my.db`", by="t")


def test_nobody_sees_a_source_without_a_grant(source, ann):
    assert found() is None
    grants.grant(principal="user:ann", privilege="select", on="lake", by="t")
    assert found() is None


def test_who_may_see_gets_no_password(source, ann):
    grants.grant(
        principal="group:bi", privilege="discover", on="shop.public.orders", by="t"
    )
    live = found()
    assert live.access is None
    assert live.table["parts"] == list(ORDERS)
    assert live.table["relation"] == '"public"."orders"'
    assert found("shop", "public", "people") is None
    assert policy_feed.policy_for("ann").sources_seen == ("shop.public.orders",)


def test_who_may_read_gets_how_it_is_reached(source, ann):
    grants.grant(principal="user:ann", privilege="select", on="shop.public", by="t")
    live = found()
    assert live.access["properties"]["password"] == "pw-1"
    assert live.access["properties"]["socketFactoryArg"].startswith("127.0.0.1;")
    assert live.access["connections"] == 3  # one of them is for others
    assert "pw-1" not in repr(live)
    assert "pw-1" not in str(live.table)
    names = [column["name"] for column in live.table["columns"]]
    table = Table.objects.get(database__name="public", name="orders")
    assert names == list(
        Column.objects.filter(table=table)
        .exclude(type="")
        .order_by("position")
        .values_list("name", flat=True)
    )


def test_some_columns_are_enough(source, ann):
    grants.grant(
        principal="user:ann",
        privilege="select",
        on="shop.public.orders",
        columns=["id"],
        by="t",
    )
    assert found().access
    policy = policy_feed.policy_for("ann")
    assert (policy.sources, policy.sources_seen) == ((), ())
    assert policy.tables["shop.public.orders"].columns == {"id"}
    users.update_user("ann", users.UserChange(is_active=False), by="t")
    assert found() is None


def test_names_that_may_be_seen_are_listed(source, admin, ann):
    def names(*above, user="ann"):
        return live_names(principal_for(user), *above, limit=9)

    assert names() == []
    assert names("shop", "public") == []
    grant_in_part()
    assert names() == ["shop"]
    assert names("SHOP") == ["my.db", "public"]
    assert names("shop", "Public") == ["orders"]
    assert names("shop", "my.db") == ["a.b c", "orders", "people"]
    assert names("lake") == []
    assert names("shop", "public", user="root") == ["a.b c", "orders", "people"]
    columns = live_columns(principal_for("ann"), *ORDERS)
    assert [c.name for c in columns] == ["id"]
    assert live_columns(principal_for("ann"), "shop", "public", "people") == []


def test_tables_of_a_source_cost_the_same_however_many(
    source, ann, django_assert_num_queries
):
    def matching(*patterns, user="ann"):
        return live_tables_matching(principal_for(user), "SHOP", patterns, limit=9)

    assert matching(None, None) == []
    grant_in_part()
    named = [str(one.on) for one in matching("PUB%", None)]
    assert named == ["shop.public.orders"]
    assert [one.on.table for one in matching("my._b", r"A.B\ c")] == ["a.b c"]
    principal = principal_for("ann")
    with django_assert_num_queries(3):
        # the source, what the principal may see, its tables
        tables = live_tables_matching(principal, "shop", (None, "%"), limit=9)
    assert len(tables) == 4
    with django_assert_num_queries(3):
        columns = live_columns_matching(principal, tables, "%")
    for database, table in {(c.database, c.table) for c in columns}:
        of_one = [c for c in columns if (c.database, c.table) == (database, table)]
        assert of_one == live_columns(principal, "shop", database, table)
    assert [c.name for c in columns if c.database == "public"] == ["id"]


def test_names_in_other_case_are_found_when_there_is_one(source, ann):
    grants.grant(principal="user:ann", privilege="select", on="shop", by="t")
    assert found("SHOP", "Public", "ORDERS").table["parts"] == list(ORDERS)
    database = source.databases.get(name="public")
    Table.objects.create(database=database, name="Orders", source_name="Orders")
    assert found("shop", "public", "Orders").table["parts"][2] == "Orders"
    assert found().table["parts"] == list(ORDERS)
    assert found("shop", "public", "ORDERS") is None


def test_a_network_that_is_denied_is_not_reached(source, ann, settings):
    grants.grant(principal="user:ann", privilege="select", on="shop", by="t")
    settings.SLUICE_SOURCE_NETWORKS_DENIED = ["127.0.0.0/8"]
    with pytest.raises(SluiceError):
        found()
