"""Roles are names for privileges: the same decision, held under one name."""

from __future__ import annotations

import pytest

from catalog.access.policy import (
    ROLES,
    HeldGrant,
    Principal,
    Privilege,
    Role,
    Securable,
    decide,
    giving,
    lake_patterns,
)

D, S, O, M = Privilege.DISCOVER, Privilege.SELECT, Privilege.OPERATE, Privilege.MANAGE  # noqa: E741
ANN = Principal("ann", frozenset({"bi"}))
ORDERS = Securable("lake", "shop", "orders")
GIVES = {
    Role.VIEWER: {D},
    Role.ANALYST: {D, S},
    Role.OPERATOR: {D, S, O},
    Role.EDITOR: {D, S, O, M},
}


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("on", ["lake", "lake.shop", "lake.shop.orders"])
def test_a_role_gives_exactly_its_privileges(role, on):
    held = [HeldGrant("group:bi", role, Securable(*on.split(".")))]
    got = {p for p in Privilege if decide(ANN, p, ORDERS, held).allowed}
    assert got == GIVES[role]
    assert set(ROLES) == set(GIVES)


def test_no_name_is_both_a_role_and_a_privilege():
    assert not set(map(str, Role)) & set(map(str, Privilege))


def test_engines_hear_of_roles_as_of_privileges():
    held = [HeldGrant("user:ann", Role.ANALYST, Securable("lake", "shop"))]
    assert lake_patterns(ANN, S, held) == ("shop.*",)
    held = [HeldGrant("user:ann", Role.VIEWER, Securable("lake", "shop"))]
    assert lake_patterns(ANN, S, held) == ()


def test_every_grant_that_gives_is_named():
    held = [
        HeldGrant("user:ann", S, ORDERS, id=1),
        HeldGrant("group:bi", Role.EDITOR, Securable("lake"), id=2),
        HeldGrant("group:bi", O, Securable("lake"), id=3),
        HeldGrant("group:hr", S, Securable("lake"), id=4),
    ]
    assert [g.id for g in giving(ANN, S, ORDERS, held)] == [1, 2]
