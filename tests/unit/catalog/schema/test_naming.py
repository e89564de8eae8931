"""The naming rule: a table of cases, and what must hold for any names at all."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.schema.naming import (
    RESERVED_DATABASES,
    is_system_column,
    lake_columns,
    lake_databases,
    lake_tables,
    plain_column,
    plain_name,
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("orders", "orders"),
        ("Orders", "orders"),
        ("order items", "order_items"),
        ("a.b", "a_b"),
        ("a-b", "a_b"),
        ('say "hi"', "say__hi_"),
        ("it's", "it_s"),
        ("select", "select"),
        ("2024", "_2024"),
        ("1a", "_1a"),
        ("_a", "_a"),
        ("a_", "a_"),
        ("x" * 63, "x" * 63),
        ("naïve", "naive"),
        ("nai\u0308ve", "naive"),
        ("Größe", "grosse"),
        ("客户", "kehu"),
        ("订单明细表", "dingdanmingxibiao"),
        ("таблица", "tablitsa"),
        ("😀", "_grinning_"),
        ("a\nb", "a_b"),
        ("a`b", "a_b"),
        ("a/../b", "a____b"),
        ("٣x", "_3x"),
        ("订a单", "dingadan"),
        ("\ue000b", "_b"),
        ("É", "e"),
    ],
)
def test_plain_table_names(source: str, expected: str) -> None:
    assert plain_name(source) == expected
    assert lake_tables([("public", source)]) == {("public", source): expected}


@pytest.mark.parametrize("source", ["", "_", "___", "\ue000", "..", " ", '"'])
def test_a_table_name_of_which_nothing_is_left(source: str) -> None:
    assert lake_tables([("shop", source)]) == {
        ("shop", source): f"t_{sha(f'shop.{source}')}"
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("id", "id"),
        ("ID", "id"),
        ("订单", "订单"),
        ("Größe", "größe"),
        ("prénom client", "prénom_client"),
        ("имя", "имя"),
        ("a b", "a_b"),
        ("a.b", "a_b"),
        ("1a", "_1a"),
        ("١a", "_a"),
        ("order", "order"),
        ("𠀀x", "_x"),
        ("e\u0301", "e_"),
        ("\u0870a", "_a"),
        ("_sluic", "_sluic"),
    ],
)
def test_plain_column_names(source: str, expected: str) -> None:
    assert plain_column(source) == expected
    assert lake_columns([source]) == {source: expected}


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("_hoodie_commit_time", "_hoodie_commit_time"),
        ("_HOODIE_x", "_hoodie_x"),
        ("_sluice_seq", "_sluice_seq"),
        ("_Sluice_Deleted", "_sluice_deleted"),
        ("-sluice-a", "_sluice_a"),
        ("_", "t"),
        ("'", "t"),
    ],
)
def test_column_names_that_always_get_a_suffix(source: str, plain: str) -> None:
    assert lake_columns([source]) == {source: f"{plain}_{sha(source)}"}


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["a b", "a_b"], ["a_b_" + sha("a b"), "a_b"]),
        (["A", "a"], ["a_" + sha("A"), "a"]),
        (["A b", "a B"], ["a_b_" + sha("A b"), "a_b_" + sha("a B")]),
        (["T", "_"], ["t_" + sha("T"), "t_" + sha("_")]),
        (["t", "_"], ["t", "t_" + sha("_")]),
        (["ID", "Id", "id"], ["id_" + sha("ID"), "id_" + sha("Id"), "id"]),
        # Spark's equalsIgnoreCase takes these as one: long s, kelvin, final sigma
        (["s", "ſ"], ["s", "ſ_" + sha("ſ")]),
        (["K", "k"], ["k_" + sha("K"), "k"]),
        (["ς", "σ"], ["ς", "σ_" + sha("σ")]),
        (["i", "ı"], ["i", "ı_" + sha("ı")]),
    ],
)
def test_colliding_columns(sources: list[str], expected: list[str]) -> None:
    assert list(lake_columns(sources).values()) == expected
    assert lake_columns(reversed(sources)) == dict(zip(sources, expected, strict=True))


def test_tables_of_two_schemas_in_one_lake_database() -> None:
    names = lake_tables([("a", "orders"), ("b", "orders"), ("b", "Orders")])
    assert names[("b", "Orders")] == "orders_" + sha("b.Orders")
    # Both are equal to their lake name: the first by source name stays plain.
    assert names[("a", "orders")] == "orders"
    assert names[("b", "orders")] == "orders_" + sha("b.orders")


def test_pinned_names_never_change_and_newcomers_give_way() -> None:
    pinned = {("s", "A b"): "a_b"}
    names = lake_tables([("s", "a_b"), ("s", "A b")], pinned=pinned)
    assert names == {("s", "a_b"): "a_b_" + sha("s.a_b"), ("s", "A b"): "a_b"}


def test_a_taken_name_is_avoided() -> None:
    assert lake_tables([("s", "x")], taken={"x"}) == {("s", "x"): "x_" + sha("s.x")}


def test_a_suffixed_name_that_is_taken_gets_more_digits() -> None:
    short = "a_b_" + sha("a b")
    names = lake_columns(["a b", "a_b", short])
    full = hashlib.sha256(b"a b").hexdigest()
    assert names == {"a b": "a_b_" + full[:16], "a_b": "a_b", short: short}


def test_equal_hash_texts_still_give_two_names() -> None:
    names = lake_tables([("a.", "_"), ("a", "._")])
    assert len(set(names.values())) == 2


@pytest.mark.parametrize(
    ("datasource", "schema", "expected"),
    [
        ("shop", "public", "shop"),
        ("shop", "Public", "shop_public"),
        ("shop", "sales", "shop_sales"),
        ("Shop-EU", "sales 2024", "shop_eu_sales_2024"),
        ("1shop", "public", "_1shop"),
        ("shop", "订单", "shop_dingdan"),
    ],
)
def test_lake_database_names(datasource: str, schema: str, expected: str) -> None:
    source = (datasource, schema)
    assert lake_databases([source]) == {source: expected}


def test_colliding_lake_databases() -> None:
    one, other = ("a", "b_c"), ("a_b", "c")
    names = lake_databases([one, other])
    assert sorted(names.values()) == ["a_b_c", "a_b_c_" + sha("a_b.c")]


@pytest.mark.parametrize("name", ["Default", "global-temp", "LAKE"])
def test_reserved_lake_databases_get_a_suffix(name: str) -> None:
    found = lake_databases([(name, "public")])[(name, "public")]
    assert found == f"{plain_name(name)}_{sha(f'{name}.public')}"


def test_system_columns_are_told_from_source_columns() -> None:
    assert is_system_column("_hoodie_commit_time")
    assert is_system_column("_sluice_seq")
    assert not is_system_column("sluice_seq")
    assert not is_system_column(lake_columns(["_sluice_seq"])["_sluice_seq"])
    assert not is_system_column(lake_columns(["_hoodie_"])["_hoodie_"])


# ------------------------------------------------------------ for any names at all

hostile = st.text(
    st.sampled_from("abAB_ .-'\"`订Éßſ1٣\u0301𠀀ıİKς"), min_size=0, max_size=6
)
names = st.lists(st.one_of(hostile, st.text(max_size=8)), max_size=12, unique=True)
TABLE = re.compile("[a-z_][a-z0-9_]*")


def java_fold(name: str) -> str:
    def fold(c: str) -> str:
        upper = c.upper() if len(c.upper()) == 1 else c
        return upper.lower() if len(upper.lower()) == 1 else upper

    return "".join(map(fold, name))


@settings(max_examples=400)
@given(names)
def test_tables_are_always_valid_unique_and_independent_of_order(
    sources: list[str],
) -> None:
    pairs = [("s", name) for name in sources]
    named = lake_tables(pairs)
    assert list(named) == pairs
    assert all(TABLE.fullmatch(name) for name in named.values())
    assert all(name.strip("_") for name in named.values())
    assert len(set(named.values())) == len(pairs)
    assert lake_tables(list(reversed(pairs))) == named


@settings(max_examples=400)
@given(names)
def test_columns_are_always_valid_and_unique_for_spark(sources: list[str]) -> None:
    named = lake_columns(sources)
    for name in named.values():
        first, *rest = name
        assert first == "_" or first.isalpha()
        assert all(c == "_" or c.isalnum() for c in rest)
        assert all(ord(c) <= 0xFFFF for c in name)
        assert not is_system_column(name)
    assert len({java_fold(name) for name in named.values()}) == len(sources)
    assert lake_columns(sorted(sources)) == named


@settings(max_examples=300)
@given(names, names)
def test_what_was_pinned_stays_whatever_comes_later(
    first: list[str], later: list[str]
) -> None:
    pinned = lake_columns(first)
    named = lake_columns(first + later, pinned=pinned)
    assert {source: named[source] for source in first} == pinned
    assert len({java_fold(name) for name in named.values()}) == len(named)


@settings(max_examples=200)
@given(st.lists(st.tuples(hostile, hostile), max_size=8, unique=True))
def test_databases_are_always_valid_unique_and_never_reserved(
    sources: list[tuple[str, str]],
) -> None:
    named = lake_databases(sources)
    assert all(TABLE.fullmatch(name) for name in named.values())
    assert len(set(named.values())) == len(sources)
    assert not RESERVED_DATABASES & set(named.values())
    assert lake_databases(reversed(sources)) == named
