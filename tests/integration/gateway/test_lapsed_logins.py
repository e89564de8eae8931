"""Who may no longer come in does not stay in; who may no longer read stops reading."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from pyhive.exc import OperationalError
from TCLIService import ttypes

from catalog.access.grants import grant, revoke
from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from catalog.access.table_rights import Mask, TableRights
from catalog.access.tokens import create_token, delete_token
from catalog.models import ApiToken
from tests.integration.gateway.test_pyhive import connect, eventually

# thrift's client forgets its socket when opening fails or the peer hangs up.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


def revoke_token(user: User, token: ApiToken) -> None:
    delete_token(token.pk, by=user)


def let_expire(user: User, token: ApiToken) -> None:
    ApiToken.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))


def change_password(user: User, token: ApiToken) -> None:
    user.set_password("a-new-and-better-one")
    user.save()


@pytest.mark.parametrize(
    ("end", "lasting"),
    [(revoke_token, "password"), (let_expire, "password"), (change_password, "token")],
)
def test_a_session_ends_with_what_proved_its_user(gateway, users, end, lasting):
    token = create_token(users["ann"], name="bi", expires_in_days=1, by="ann")
    connections = {
        "token": connect(gateway, password=token.text),
        "password": connect(gateway),
    }
    for connection in connections.values():
        connection.cursor().execute("SELECT 1")
    end(users["ann"], token.row)
    assert eventually(lambda: len(gateway.gateway.server.connections) == 1)
    connections.pop(lasting).cursor().execute("SELECT 1")
    (ended,) = connections.values()
    with pytest.raises(Exception, match=r"TSocket|[Bb]roken pipe|reset"):
        ended.cursor().execute("SELECT 1")


@pytest.mark.parametrize("orientation", ["FETCH_NEXT", "FETCH_FIRST"])
def test_a_revoke_ends_an_open_result(gateway, users, orientation):
    given = grant(principal="user:ann", privilege="select", on="lake.shop", by="root")
    with connect(gateway) as connection:
        cursor, fresh = connection.cursor(), connection.cursor()
        cursor.execute("SELECT * FROM range(5000)")
        cursor.fetchone()
        revoke(given.pk, by="root")
        if orientation == "FETCH_NEXT":  # what the watcher has seen, or a statement
            fresh.execute("SELECT 1")
        request = ttypes.TFetchResultsReq(
            operationHandle=cursor._operationHandle,
            orientation=getattr(ttypes.TFetchOrientation, orientation),
            maxRows=10,
        )
        status = connection.client.FetchResults(request).status
        assert (status.sqlState, "revoked" in status.errorMessage) == ("42501", True)
        gone = connection.client.FetchResults(request).status
        assert gone.statusCode == ttypes.TStatusCode.INVALID_HANDLE_STATUS


def test_what_changes_for_others_or_is_granted_more_ends_nothing(gateway, users):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM range(5000)")
        cursor.fetchone()
        grant(principal="user:ann", privilege="select", on="lake.shop", by="root")
        given = grant(principal="user:bob", privilege="select", on="lake", by="root")
        revoke(given.pk, by="root")
        gateway.call(gateway.gateway.store.policy_version())
        assert len(cursor.fetchall()) == 4999


@pytest.mark.parametrize(
    ("read", "is_open"),
    [({}, True), ({"shop.orders": {"id"}}, True), ({"hr.pay": {"id"}}, False)],
    ids=["no table", "another table", "that table"],
)
def test_a_revoke_ends_what_has_read_there(gateway, users, read, is_open):
    tables = {name: frozenset(columns) for name, columns in read.items()}
    gateway.engine.read = ReadTables(7, tables)
    grant(principal="user:ann", privilege="select", on="lake.shop", by="root")
    given = grant(principal="user:ann", privilege="select", on="lake.hr", by="root")
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM range(5000)")
        cursor.fetchone()
        revoke(given.pk, by="root")
        gateway.call(gateway.gateway.store.policy_version())
        if is_open:
            assert len(cursor.fetchall()) == 4999
        else:
            with pytest.raises(OperationalError, match="revoked"):
                cursor.fetchall()


ORDERS = {"shop.orders": TableRights(columns=frozenset({"id", "pay"}))}


@pytest.mark.parametrize(
    ("now", "columns", "covers"),
    [
        (ORDERS, {"id"}, True),
        ({"shop.orders": TableRights(columns=frozenset({"id"}))}, {"id"}, True),
        ({"shop.orders": TableRights(columns=frozenset({"id"}))}, {"pay"}, False),
        ({"shop.orders": TableRights(columns=frozenset({"id"}))}, (), True),
        ({}, (), False),
        ({"shop.orders": replace(ORDERS["shop.orders"], filters=("x",))}, (), False),
        (
            {"shop.orders": replace(ORDERS["shop.orders"], masks=(("pay", Mask("")),))},
            {"id"},
            True,
        ),
        (
            {"shop.orders": replace(ORDERS["shop.orders"], masks=(("pay", Mask("")),))},
            {"id", "pay"},
            False,
        ),
    ],
)
def test_rights_cover_what_a_statement_reads(now, columns, covers):
    def policy(tables, select=("hr.*",)):
        return PrincipalPolicy("ann", 1, True, False, select, tables=tables)

    read = ReadTables(1, {"shop.orders": frozenset(columns)})
    assert policy(now, ()).covers(policy(ORDERS), read) is covers
    assert not policy(now, ()).covers(policy(ORDERS), replace(read, is_whole=False))


@pytest.mark.parametrize(
    ("limits", "covers"),
    [
        ({"filters": ("region = 'EU'",)}, False),
        ({"masks": (("pay", Mask("redact")),)}, False),
        ({"masks": (("id", Mask("redact")),)}, True),
        ({"columns": frozenset({"id"})}, False),
        ({}, True),
    ],
)
def test_what_was_read_by_newer_rights_may_have_been_more(limits, covers):
    """A filter was dropped as the statement began, and is there again."""
    tables = {"shop.orders": TableRights(**limits)}
    before = PrincipalPolicy("ann", 3, True, False, ("shop.orders",), tables=tables)
    now = replace(before, version=5)
    read = ReadTables(3, {"shop.orders": frozenset({"pay"})})
    assert now.covers(before, read)
    assert now.covers(before, replace(read, version=4)) is covers


@pytest.mark.parametrize(
    ("now", "before", "covers"),
    [
        (("*",), ("shop.orders",), True),
        (("shop.*",), ("shop.orders", "shop.*"), True),
        (("shop.orders",), ("shop.*",), False),
        (("shop.*",), ("*",), False),
        ((), (), True),
    ],
)
def test_rights_cover_those_that_allow_no_more(now, before, covers):
    def policy(select):
        return PrincipalPolicy("ann", 1, is_active=True, is_admin=False, select=select)

    assert policy(now).covers(policy(before)) is covers


def test_a_disabled_user_is_covered_by_nothing():
    before = PrincipalPolicy("ann", 1, is_active=True, is_admin=False)
    assert not PrincipalPolicy("ann", 2, is_active=False, is_admin=False).covers(before)
