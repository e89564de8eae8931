"""The one decision, as a table: every privilege against every grant and place."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.access.policy import (
    IMPLIED,
    HeldGrant,
    Principal,
    Privilege,
    Securable,
    decide,
    granting,
    lake_patterns,
    source_patterns,
)
from core.errors import InvalidRequest

D, S, O, M = Privilege.DISCOVER, Privilege.SELECT, Privilege.OPERATE, Privilege.MANAGE  # noqa: E741
ANN = Principal("ann", frozenset({"bi"}))
LAKE, SHOP = Securable("lake"), Securable("lake", "shop")
ORDERS = Securable("lake", "shop", "orders")
OTHERS = [
    Securable("lake", "shop", "people"),
    Securable("lake", "hr"),
    Securable("lake", "shop2", "orders"),
    Securable("lakes", "shop", "orders"),
]


def give(privilege, on, grantee="user:ann"):
    return HeldGrant(grantee, privilege, on)


HOLDS = {
    (D, D): True, (D, S): False, (D, O): False, (D, M): False,
    (S, D): True, (S, S): True, (S, O): False, (S, M): False,
    (O, D): True, (O, S): False, (O, O): True, (O, M): False,
    (M, D): True, (M, S): False, (M, O): True, (M, M): True,
}  # fmt: skip


@pytest.mark.parametrize(("held", "asked"), list(HOLDS))
def test_which_privilege_gives_which(held, asked):
    decision = decide(ANN, asked, ORDERS, [give(held, ORDERS)])
    assert decision.allowed is HOLDS[held, asked]
    assert (decision.via is not None) is decision.allowed


def test_the_table_above_is_complete():
    assert set(HOLDS) == set(itertools.product(Privilege, Privilege))
    assert set(IMPLIED) == set(Privilege)


@pytest.mark.parametrize("asked", list(Privilege))
def test_nothing_is_allowed_by_default(asked):
    for thing in [LAKE, SHOP, ORDERS, *OTHERS]:
        assert not decide(ANN, asked, thing, []).allowed


@pytest.mark.parametrize("on", [LAKE, SHOP, ORDERS])
def test_a_grant_reaches_down(on):
    assert decide(ANN, S, ORDERS, [give(S, on)]).allowed


@pytest.mark.parametrize("on", OTHERS)
def test_a_grant_does_not_reach_sideways(on):
    assert not decide(ANN, S, ORDERS, [give(S, on)]).allowed


@pytest.mark.parametrize("held", list(Privilege))
@pytest.mark.parametrize("container", [LAKE, SHOP])
def test_a_grant_below_shows_the_way_and_no_more(held, container):
    grants = [give(held, ORDERS)]
    seen = decide(ANN, D, container, grants)
    assert (seen.allowed, seen.reason) == (True, "below")
    for asked in [S, O, M]:
        assert not decide(ANN, asked, container, grants).allowed
    assert not decide(ANN, D, Securable("lake", "hr"), grants).allowed


@pytest.mark.parametrize(
    ("grantee", "allowed"),
    [
        ("user:ann", True),
        ("group:bi", True),
        ("user:bi", False),
        ("group:ann", False),
        ("user:Ann", False),
        ("ann", False),
        ("group:", False),
    ],
)
def test_whose_grant_it_is(grantee, allowed):
    assert decide(ANN, S, ORDERS, [give(S, ORDERS, grantee)]).allowed is allowed


def test_administrators_may_everything_unless_inactive():
    admin = Principal("root", is_admin=True)
    gone = Principal("root", is_admin=True, is_active=False)
    for asked in Privilege:
        assert decide(admin, asked, ORDERS, []).reason == "admin"
        assert decide(gone, asked, ORDERS, []).reason == "inactive"
    assert lake_patterns(admin, S, []) == ("*",)
    assert lake_patterns(gone, S, []) == ()


def test_an_inactive_user_keeps_his_grants_but_not_their_effect():
    gone = Principal("ann", is_active=False)
    assert not decide(gone, D, ORDERS, [give(M, LAKE)]).allowed


def test_patterns_are_of_the_lake_only_and_sorted():
    grants = [
        give(S, ORDERS),
        give(D, Securable("lake", "hr")),
        give(S, Securable("crm", "public")),
        give(O, Securable("lake", "ops")),
        give(S, LAKE, "user:bob"),
    ]
    assert lake_patterns(ANN, S, grants) == ("shop.orders",)
    assert lake_patterns(ANN, D, grants) == ("hr.*", "ops.*", "shop.orders")
    assert lake_patterns(ANN, S, [give(S, LAKE)]) == ("*",)


def test_names_of_sources_are_quoted_where_a_part_has_a_dot():
    grants = [
        give(S, ORDERS),
        give(S, Securable("crm", "my.db", "t")),
        give(D, Securable("crm", "public")),
        give(S, Securable("hr"), "user:bob"),
    ]
    assert source_patterns(ANN, S, grants) == ("crm.`my.db`.t",)
    assert source_patterns(ANN, D, grants) == ("crm.`my.db`.t", "crm.public")
    gone = Principal("ann", is_active=False)
    assert source_patterns(gone, S, grants) == ()


def test_malformed_securables_are_refused():
    for parts in [("",), ("lake", "", "t"), ("", "d")]:
        with pytest.raises(InvalidRequest):
            Securable(*parts)


_names = st.sampled_from(["a", "b"])
_securables = st.one_of(
    st.builds(Securable, _names),
    st.builds(Securable, _names, _names),
    st.builds(Securable, _names, _names, _names),
)
_grants = st.lists(
    st.builds(
        HeldGrant,
        st.sampled_from(["user:ann", "group:bi", "user:bob"]),
        st.sampled_from(list(Privilege)),
        _securables,
    ),
    max_size=5,
)


@given(_grants, _grants, st.sampled_from(list(Privilege)), _securables)
def test_more_grants_never_take_anything_away(some, more, asked, thing):
    if decide(ANN, asked, thing, some).allowed:
        assert decide(ANN, asked, thing, some + more).allowed


@given(_grants, st.sampled_from(list(Privilege)), _securables)
def test_whatever_may_be_done_may_be_seen(grants, asked, thing):
    if decide(ANN, asked, thing, grants).allowed:
        assert decide(ANN, D, thing, grants).allowed


def test_granting_is_the_inverse_of_implied():
    for held, asked in HOLDS:
        assert (held in granting(asked)) is HOLDS[held, asked]
