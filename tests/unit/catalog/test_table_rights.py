"""What grants on columns and rules leave of a table."""

from __future__ import annotations

import pytest

from catalog.access.policy import (
    HeldGrant,
    Principal,
    Privilege,
    Role,
    Securable,
    decide,
    lake_patterns,
)
from catalog.access.principal_policy import PrincipalPolicy
from catalog.access.table_rights import (
    HIDDEN,
    NOTHING,
    WHOLE,
    HeldRule,
    Mask,
    TableRights,
    limits_of,
)

ANN = Principal("ann", frozenset({"bi"}))
ROOT = Principal("root", is_admin=True)
ORDERS = Securable("lake", "shop", "orders")
EVERYONE = frozenset({"everyone"})


def give(*columns, to="user:ann", privilege=Privilege.SELECT, on=ORDERS):
    return HeldGrant(to, privilege, on, columns=frozenset(columns))


def mask(column, kind="redact", applies_to=EVERYONE, excepted=()):
    return HeldRule(
        ORDERS, frozenset(applies_to), frozenset(excepted), column=column, mask=kind
    )


def keep(condition, applies_to=EVERYONE, excepted=()):
    return HeldRule(
        ORDERS, frozenset(applies_to), frozenset(excepted), expression=condition
    )


def on_orders(principal, grants=(), rules=()):
    return limits_of(principal, grants, rules, hash_key="k").on("shop", "orders")


def test_granted_columns_are_a_union_over_user_and_groups():
    grants = [give("id"), give("total", to="group:bi"), give("pay", to="user:bob")]
    assert on_orders(ANN, grants).columns == {"id", "total"}


@pytest.mark.parametrize("on", [ORDERS, Securable("lake", "shop"), Securable("lake")])
@pytest.mark.parametrize("privilege", [Privilege.SELECT, Role.ANALYST])
def test_a_grant_on_the_whole_gives_all_columns(on, privilege):
    whole = give(to="group:bi", privilege=privilege, on=on)
    assert on_orders(ANN, [give("id"), whole]) == WHOLE


def test_discover_and_others_of_the_table_give_no_further_column():
    grants = [give("id"), give(privilege=Privilege.DISCOVER)]
    assert on_orders(ANN, grants).columns == {"id"}


def test_a_grant_on_columns_gives_no_privilege():
    grants = [give("id")]
    for privilege in Privilege:
        assert not decide(ANN, privilege, ORDERS, grants).allowed
        assert lake_patterns(ANN, privilege, grants) == ()
    assert not decide(ANN, Privilege.DISCOVER, Securable("lake"), grants).allowed


def test_all_row_filters_that_bind_hold():
    rules = [
        keep("a"),
        keep("b", applies_to={"group:bi"}),
        keep("c", applies_to={"user:bob"}),
        keep("d", excepted={"user:ann"}),
    ]
    assert on_orders(ANN, [give()], rules).filters == ("a", "b")


def test_rules_bind_administrators_unless_excepted():
    rules = [keep("a"), mask("pay", excepted={"user:root"})]
    assert on_orders(ROOT, [], rules) == TableRights(filters=("a",))


def test_a_hash_has_the_key_of_the_installation():
    found = on_orders(ANN, [give()], [mask("pay", "hash")])
    assert found.masks == (("pay", Mask("hash", "k")),)


def test_two_masks_of_one_column_hide_it():
    found = on_orders(ANN, [give()], [mask("pay"), mask("pay", "null")])
    assert found.masks == (("pay", Mask(HIDDEN)),)
    assert not found.shows("pay", shows_keys=True)


@pytest.mark.parametrize(
    ("rights", "column", "is_shown"),
    [
        (WHOLE, "_hoodie_record_key", True),
        (TableRights(filters=("a",)), "_hoodie_record_key", True),
        (TableRights(columns=frozenset({"id"})), "_hoodie_record_key", False),
        (TableRights(columns=frozenset({"id"})), "_sluice_seq", True),
        (TableRights(columns=frozenset({"id"})), "_sluice_key", False),
        (TableRights(masks=(("pay", Mask("null")),)), "_sluice_day", False),
        (TableRights(masks=(("pay", Mask("null")),)), "pay", True),
        (TableRights(columns=frozenset({"id"})), "pay", False),
    ],
)
def test_which_columns_are_shown(rights, column, is_shown):
    assert rights.shows(column, shows_keys=rights.is_plain("id") is False) is is_shown


SOME = TableRights(columns=frozenset({"id", "pay"}))
FEWER = TableRights(columns=frozenset({"id"}))
ROWS = TableRights(filters=("a",))
MASKED = TableRights(masks=(("pay", Mask("null")),))


@pytest.mark.parametrize(
    ("mine", "theirs", "covers"),
    [
        *[(WHOLE, each, True) for each in (SOME, ROWS, MASKED, NOTHING)],
        *[(each, WHOLE, False) for each in (SOME, ROWS, MASKED, NOTHING)],
        (SOME, FEWER, True),
        (FEWER, SOME, False),
        (ROWS, TableRights(filters=("a", "b")), True),
        (TableRights(filters=("a", "b")), ROWS, False),
        (ROWS, TableRights(filters=("b",)), False),
        (MASKED, FEWER, True),
        (MASKED, SOME, False),
        (MASKED, MASKED, True),
        (TableRights(masks=(("pay", Mask("redact")),)), MASKED, False),
    ],
)
def test_what_an_open_result_may_go_on_with(mine, theirs, covers):
    assert mine.covers(theirs) is covers


def test_a_result_ends_when_a_table_that_was_readable_has_other_rights():
    def policy(select=(), **tables):
        named = {f"shop.{name}": rights for name, rights in tables.items()}
        return PrincipalPolicy("ann", 1, True, False, select, tables=named)

    whole = policy(("shop.*",))
    assert policy(("shop.*",), orders=ROWS).covers(whole) is False
    assert whole.covers(policy(("shop.*",), orders=ROWS))
    assert policy(orders=SOME).covers(policy(orders=FEWER))
    assert policy().covers(policy(orders=FEWER)) is False
    assert policy(("hr.*",), orders=ROWS).covers(policy(("hr.*",)))
    admin = PrincipalPolicy("r", 1, True, True, ("*",))
    limited = PrincipalPolicy("r", 2, True, True, ("*",), tables={"shop.orders": ROWS})
    assert admin.covers(limited)
    assert not limited.covers(admin)


def test_a_source_is_limited_apart_from_the_lake():
    live = Securable("crm", "shop", "orders")
    grants = [give("id", on=live)]
    limits = limits_of(ANN, grants, [])
    assert limits.at(live).columns == {"id"}
    assert limits.on("shop", "orders") == WHOLE
    assert set(limits.tables) == {"crm.shop.orders"}
    whole = give(on=Securable("crm"))
    assert limits_of(ANN, [*grants, whole], []).at(live) == WHOLE


def test_a_lake_name_with_a_dot_is_spelled_like_no_other():
    odd, live = (
        Securable("lake", "crm.shop", "orders"),
        Securable("crm", "shop", "orders"),
    )
    rule = HeldRule(live, EVERYONE, expression="id > 1")
    limits = limits_of(ANN, [give("id", on=odd)], [rule])
    assert limits.at(live) == TableRights(filters=("id > 1",))
    assert limits.at(odd) == limits.on("crm.shop", "orders")
    assert limits.at(odd).columns == {"id"}
    give_all = lake_patterns(ANN, Privilege.SELECT, [give(on=odd)])
    assert give_all == ("`crm.shop`.orders",)
    mine = PrincipalPolicy("ann", 1, True, False, give_all, tables=limits.tables)
    others = PrincipalPolicy("ann", 1, True, False, sources=("crm.shop.orders",))
    assert not mine.covers(others)
    whole = lake_patterns(
        ANN, Privilege.SELECT, [give(on=Securable("lake", "crm.shop"))]
    )
    assert PrincipalPolicy("ann", 1, True, False, whole).covers(
        PrincipalPolicy("ann", 1, True, False, give_all)
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "covers"),
    [
        (("crm",), ("crm.public.t",), True),
        (("crm.public",), ("crm.public.t", "crm.public"), True),
        (("crm.public",), ("crm",), False),
        (("crm.public",), ("crm.publicity.t",), False),
        ((), ("crm",), False),
    ],
)
def test_what_a_result_of_a_source_may_go_on_with(mine, theirs, covers):
    def policy(sources, **more):
        return PrincipalPolicy("ann", 1, True, False, sources=sources, **more)

    assert policy(mine).covers(policy(theirs)) is covers
    rows = {"crm.public.t": ROWS}
    assert policy(("crm",), tables=rows).covers(policy(("crm",))) is False
    assert policy(("crm",)).covers(policy(("crm",), tables=rows))
