"""Beside the editor: the schema tree, saved queries, and results as SQL writes them."""

from __future__ import annotations

import re

import pytest

from catalog.models import SavedQuery
from frontend.reading.statements import ResultPage, without_meta
from frontend.templatetags.figures import sql_cell


def test_the_tree_opens_level_by_level_for_what_may_be_seen(world, browse):
    client = browse("root")
    assert "database=shop" in client.get("/sql").content.decode()
    tables = client.get("/sql/tree", {"database": "shop"}).content.decode()
    assert "database=shop&amp;table=orders" in tables
    given = {"database": "shop", "table": "orders"}
    columns = client.get("/sql/tree", given).content.decode()
    assert 'data-insert="updated_at"' in columns
    assert 'data-insert="`订单号`"' in columns
    seen = browse("ann").get("/sql/tree", {"database": "shop"}).content.decode()
    assert "orders" in seen
    assert "customers" not in seen
    assert "Nothing visible to you" in browse("eve").get("/sql").content.decode()


def test_lake_and_live_sources_are_told_apart(world, browse):
    """A source may have the name of a lake's database: heading, icon and mark say which
    of them is read."""
    page = browse("root").get("/sql/tree").content.decode()
    tree = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert re.search(r"^Lake shop lake .*Live sources shop live source", tree), tree
    assert page.count("tree-heading") == 2
    assert page.count("<svg") > page.count("data-insert"), "headings have icons"
    below = browse("root").get("/sql/tree", {"database": "shop"}).content.decode()
    assert "tree-heading" not in below
    assert "live source" not in below


def test_the_tree_has_live_sources_beside_the_lake(world, browse):
    client = browse("root")
    top = client.get("/sql/tree").content.decode()
    name = world.source.name
    assert f"source={name}" in top
    databases = client.get("/sql/tree", {"source": name}).content.decode()
    assert f"source={name}&amp;database=public" in databases
    given = {"source": name, "database": "public"}
    tables = client.get("/sql/tree", given).content.decode()
    assert f'data-insert="{name}.public.orders"' in tables
    columns = client.get("/sql/tree", given | {"table": "orders"}).content.decode()
    assert 'data-insert="updated_at"' in columns
    assert (
        "Nothing visible to you"
        in browse("eve").get("/sql/tree", given).content.decode()
    )


NAMES = (
    ({"typed": "{s}"}, ["{s}"]),
    ({"typed": "{s}.pub"}, ["{s}.public"]),
    ({"typed": "{S}.public.ord"}, ["{s}.public.orders"]),
    ({"typed": "{s}.public.orders.upd"}, ["{s}.public.orders.updated_at"]),
    ({"typed": "amo", "in": "{s}.public.orders"}, ["amount"]),
    ({"typed": "upd", "table": "{s}.public.orders"}, ["updated_at"]),
    ({"typed": "lake.shop.orders.upd"}, ["shop.orders.updated_at"]),
)


def test_names_of_live_sources_complete(world, browse):
    def named(text):
        name = world.source.name
        return text.replace("{s}", name).replace("{S}", name.upper())

    for user in ("root", "eve"):
        client = browse(user)
        for asked, found in NAMES:
            wanted = [named(text) for text in found] if user == "root" else []
            given = {key: named(value) for key, value in asked.items()}
            shown = client.get("/sql/names", given).json()["names"]
            texts = [one["text"] for one in shown if one["kind"] != "keyword"]
            assert [text for text in texts if text in wanted] == wanted, texts
            assert wanted or not texts, asked


def test_queries_are_saved_shared_and_thrown_away(world, browse):
    root, ann = browse("root"), browse("ann")
    given = {"name": "late orders", "sql": "SELECT 1"}
    assert "late orders" in root.post("/sql/saved", given).content.decode()
    again = root.post("/sql/saved", given | {"sql": "SELECT 2"})
    assert "SELECT 2" in again.content.decode()
    query = SavedQuery.objects.get()
    assert query.sql == "SELECT 2", "saved anew under its name"
    assert "late orders" not in ann.get("/sql").content.decode()
    root.post(f"/sql/saved/{query.pk}", {"do": "share"})
    assert "late orders" in ann.get("/sql").content.decode()
    refused = ann.post(
        f"/sql/saved/{query.pk}", {"do": "delete"}, HTTP_HX_REQUEST="true"
    )
    assert "belongs to root" in refused.content.decode()
    root.post(f"/sql/saved/{query.pk}", {"do": "delete"})
    assert not SavedQuery.objects.exists()


def test_shared_queries_neither_hide_ones_own_nor_swell_the_page(
    world, browse, monkeypatch
):
    monkeypatch.setattr("frontend.views.sql.MOST_SHARED", 2)
    root, ann = browse("root"), browse("ann")
    ann.post("/sql/saved", {"name": "mine", "sql": "SELECT 1"})
    long = f"SELECT 2 -- {'x' * 50_000} the end"
    for name in ("a", "b", "c"):
        root.post("/sql/saved", {"name": name, "sql": long, "is_shared": "1"})
    seen = ann.get("/sql").content.decode()
    assert "Open mine" in seen
    assert seen.index("Open mine") < seen.index("Open a") < seen.index("Open b")
    assert "Open c" not in seen
    assert len(seen) < 50_000
    query = SavedQuery.objects.get(name="a")
    assert f"/sql?saved={query.pk}" in seen
    assert "the end" in ann.get("/sql", {"saved": query.pk}).content.decode()
    root.post(f"/sql/saved/{query.pk}", {"do": "unshare"})
    assert ann.get("/sql", {"saved": query.pk}).status_code == 404


PAGE = ResultPage(
    columns=[
        {"name": "_hoodie_commit_time", "type": "string"},
        {"name": "id", "type": "bigint"},
        {"name": "_sluice_seq", "type": "bigint"},
    ],
    rows=[["2026", 1, 7]],
    first_row=0,
    number=0,
    following=None,
)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM shop.orders", ["id"]),
        ("SELECT *, _sluice_seq FROM shop.orders", ["id", "_sluice_seq"]),
    ],
)
def test_columns_of_hudi_and_sluice_are_hidden_unless_named(sql, names):
    shown = without_meta(PAGE, sql)
    assert [column["name"] for column in shown.columns] == names
    assert shown.hidden == 3 - len(names)
    assert len(shown.rows[0]) == len(names)


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (1.5, "1.5"), (["a", None], '["a", null]')],
)
def test_values_are_written_as_sql_writes_them(value, text):
    assert sql_cell(value) == text
