"""A GET of a table by token takes two statements, a third says what may be requested of
a lake table; and it remembers nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.access import grants, tokens, users
from catalog.models import ApiToken, AuditEntry, Grant

pytestmark = pytest.mark.django_db


def asked(rest, path, **headers):
    with CaptureQueriesContext(connection) as seen:
        reply = rest("GET", path, **headers)
    return reply, len(seen.captured_queries)


@pytest.fixture
def paths(lake_orders):
    by_name = "datasources/LAKE/databases/Shop/tables/Orders"
    return [f"tables/{lake_orders.pk}", f"tables/{lake_orders.pk}/schema", by_name]


def test_one_statement_each_for_token_table_and_pipeline(admin, paths):
    assert [asked(admin, path)[1] for path in paths] == [3, 2, 3]


def take_the_grant(token):
    grants.revoke(Grant.objects.get().pk, by="t")


def take_the_token(token):
    tokens.delete_token(token.pk, by=token.user)


def take_the_user(token):
    users.update_user("ann", users.UserChange(is_active=False), by="root")


def let_it_expire(token):
    yesterday = datetime.now(UTC) - timedelta(days=1)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=yesterday)


@pytest.mark.parametrize(
    ("take", "status"),
    [
        (take_the_grant, 404),
        (take_the_token, 401),
        (take_the_user, 401),
        (let_it_expire, 401),
    ],
)
def test_a_revocation_holds_for_the_next_request(take, status, admin, ann, paths):
    grants.grant(principal="group:bi", privilege="select", on="lake.shop", by="t")
    assert [asked(ann, path)[1] for path in paths] == [3, 2, 3]
    assert asked(ann, paths[0])[0].status_code == 200
    take(ApiToken.objects.get(user__username="ann"))
    assert {ann("GET", path).status_code for path in paths} == {status}


def test_a_wrong_secret_opens_nothing_and_is_counted(admin, paths):
    right = admin.headers["Authorization"]
    admin.headers["Authorization"] = right[:-1] + ("A" if right[-1] != "A" else "B")
    admin.client.force_login(User.objects.get(username="root"))
    assert admin("GET", paths[0]).status_code == 401  # his session does not help
    assert AuditEntry.objects.filter(action="login", is_allowed=False).count() == 1


def test_a_token_at_rest_is_noted_when_it_is_used_again(admin, paths):
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    ApiToken.objects.update(last_used_at=long_ago)
    assert asked(admin, paths[0])[1] == 4
    assert ApiToken.objects.get().last_used_at > long_ago
    assert asked(admin, paths[0])[1] == 3


def test_a_server_that_went_away_is_noticed_without_a_question():
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    assert other.is_usable()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    assert not other.is_usable()
    other.close()
    assert not other.is_usable()
