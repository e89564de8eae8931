"""Users, grants, tokens and the policy version on a real PostgreSQL."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from catalog.access import authentication, grants, policy_feed, tokens, users
from catalog.access.enforcement import decision_for, require
from catalog.access.policy import Privilege, Securable, decide
from catalog.access.policy_version import bump_version
from catalog.access.principals import principal_for
from catalog.access.scope import in_scope, scope_of
from catalog.access.visibility import visible_databases, visible_datasources
from catalog.datasources import lake_database
from catalog.models import ApiToken, AuditEntry, Database, Datasource, Grant, Table
from catalog.selectors.facts import facts_for
from catalog.selectors.lookups import table_for
from catalog.selectors.tables import securable_of
from core.errors import AccessDenied, InvalidRequest, NotFound

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture
def ann() -> User:
    return users.create_user("ann", PASSWORD, groups=["bi"], by="root")


@pytest.fixture
def source() -> Datasource:
    return Datasource.objects.create(name="shop", kind="postgresql", host="db")


# ------------------------------------------------------------------ policy version
def test_every_change_of_users_groups_and_grants_raises_the_version(ann):
    seen = [policy_feed.current_version()]
    given = grants.grant(principal="user:ann", privilege="select", on="lake", by="x")
    seen.append(policy_feed.current_version())
    grants.revoke(given.pk, by="x")
    seen.append(policy_feed.current_version())
    users.update_user("ann", users.UserChange(groups=("ops",)), by="x")
    seen.append(policy_feed.current_version())
    users.update_user("ann", users.UserChange(is_active=False), by="x")
    seen.append(policy_feed.current_version())
    users.create_user("bob", PASSWORD, by="x")
    seen.append(policy_feed.current_version())
    assert seen == sorted(set(seen))


@pytest.mark.django_db(transaction=True)
def test_a_version_outside_a_transaction_is_refused():
    with pytest.raises(transaction.TransactionManagementError):
        bump_version()


def test_the_feed_speaks_in_lake_patterns(ann):
    assert policy_feed.policy_for("ann").select == ()
    grants.grant(principal="group:bi", privilege="select", on="lake.Shop", by="x")
    grants.grant(
        principal="user:ann", privilege="discover", on="lake.hr.people", by="x"
    )
    policy = policy_feed.policy_for("ann")
    assert policy.select == ("shop.*",)
    assert policy.discover == ("hr.people", "shop.*")
    assert (policy.is_active, policy.is_admin) == (True, False)
    users.update_user("ann", users.UserChange(is_active=False), by="x")
    policy = policy_feed.policy_for("ann")
    assert (policy.is_active, policy.select, policy.discover) == (False, (), ())
    assert policy_feed.policy_for("nobody").is_active is False


# ------------------------------------------------------------------ grants
def test_giving_twice_is_one_grant_and_one_version(ann):
    first = grants.grant(principal="user:ann", privilege="select", on="lake", by="x")
    version = policy_feed.current_version()
    again = grants.grant(principal="user:ann", privilege="select", on="lake", by="x")
    assert first.pk == again.pk
    assert policy_feed.current_version() == version


@pytest.mark.parametrize(
    ("principal", "privilege", "on", "code"),
    [
        ("ann", "select", "lake", "invalid_principal"),
        ("robot:ann", "select", "lake", "invalid_principal"),
        ("user:zoe", "select", "lake", "unknown_user"),
        ("user:ann", "own", "lake", "unknown_privilege"),
        ("user:ann", "select", "lake.a.b.c", "invalid_securable"),
        ("user:ann", "select", "lake..b", "invalid_name"),
        ("user:ann", "select", "nowhere.b", "unknown_datasource"),
        ("group:a b", "select", "lake", "invalid_name"),
    ],
)
def test_wrong_grants_are_refused_by_name(ann, principal, privilege, on, code):
    with pytest.raises(InvalidRequest) as failure:
        grants.grant(principal=principal, privilege=privilege, on=on, by="x")
    assert failure.value.code == code
    assert not Grant.objects.exists()


# ------------------------------------------------------------------ SQL = decide()
NAMES = ["a", "b", "c.d"]
EVERYTHING = [
    Securable(ds, db, t)
    for ds in ["one", "two"]
    for db in ["", *NAMES]
    for t in (["", *NAMES] if db else [""])
]


def random_grants(rng: random.Random) -> None:
    Grant.objects.all().delete()
    for _ in range(rng.randrange(4)):
        on = rng.choice(EVERYTHING)
        Grant.objects.get_or_create(
            principal_kind=rng.choice(["user", "group"]),
            principal_name=rng.choice(["ann", "bi", "other"]),
            privilege=rng.choice(list(Privilege)).value,
            datasource=on.datasource,
            database=on.database,
            table=on.table,
        )


def sees(principal, securable, held) -> bool:
    return decide(principal, Privilege.DISCOVER, securable, held).allowed


def is_found(principal, table_id) -> bool:
    try:
        same = table_for(principal, table_id).pk == facts_for(principal, table_id).id
    except NotFound:
        return False
    return same


def assert_grants_elsewhere_do_not_matter(principal, held, rng):
    privilege = rng.choice(list(Privilege))
    for thing in rng.sample(EVERYTHING, 8):
        stored = decision_for(principal, privilege, thing)
        whole = decide(principal, privilege, thing, held)
        assert (stored.allowed, stored.reason) == (whole.allowed, whole.reason)


def test_sql_filters_say_what_decide_says(ann):
    for ds in ["one", "two"]:
        row = Datasource.objects.create(name=ds, kind="postgresql")
        for db in NAMES:
            database = Database.objects.create(datasource=row, name=db)
            for table in NAMES:
                Table.objects.create(database=database, name=table, source_name=table)
    rng = random.Random(7)
    for _ in range(30):
        random_grants(rng)
        principal = principal_for("ann")
        held = grants.grants_of(principal)
        for privilege in Privilege:
            expected = {
                str(s)
                for s in EVERYTHING
                if s.table and decide(principal, privilege, s, held).allowed
            }
            scope = scope_of(principal, privilege=privilege)
            found = Table.objects.filter(in_scope(scope))
            assert {str(securable_of(t)) for t in found} == expected
        seen = {s for s in EVERYTHING if s.table and sees(principal, s, held)}
        one_by_one = [t for t in Table.objects.all() if is_found(principal, t.pk)]
        assert {securable_of(t) for t in one_by_one} == seen
        assert_grants_elsewhere_do_not_matter(principal, held, rng)
        see = [
            s
            for s in EVERYTHING
            if decide(principal, Privilege.DISCOVER, s, held).allowed
        ]
        databases = Database.objects.filter(visible_databases(principal))
        assert {(d.datasource.name, d.name) for d in databases} == {
            (s.datasource, s.database) for s in see if s.database and not s.table
        }
        sources = Datasource.objects.filter(visible_datasources(principal))
        assert {d.name for d in sources} == {
            s.datasource for s in see if not s.database
        }


def test_inactive_and_unknown_users_see_nothing(ann, source):
    grants.grant(principal="user:ann", privilege="manage", on="shop", by="x")
    assert Datasource.objects.filter(visible_datasources(principal_for("ann"))).exists()
    users.update_user("ann", users.UserChange(is_active=False), by="x")
    for name in ["ann", "nobody"]:
        principal = principal_for(name)
        assert not Datasource.objects.filter(visible_datasources(principal)).exists()


# ------------------------------------------------------------------ require
def test_hidden_things_answer_as_absent_ones(ann, source):
    principal = principal_for("ann")
    hidden, absent = Securable("shop"), Securable("nope")
    texts = []
    for thing in [hidden, absent]:
        with pytest.raises(NotFound) as failure:
            require(principal, Privilege.OPERATE, thing)
        texts.append(str(failure.value).replace(str(thing), "X"))
    assert texts[0] == texts[1]


def test_a_missing_privilege_on_a_visible_thing_is_named_and_audited(ann, source):
    grants.grant(principal="group:bi", privilege="discover", on="shop", by="x")
    with pytest.raises(AccessDenied) as failure:
        require(principal_for("ann"), Privilege.MANAGE, Securable("shop"))
    assert "manage" in failure.value.message
    assert AuditEntry.objects.filter(
        action="manage.denied", actor="ann", is_allowed=False
    ).exists()
    assert decision_for(
        principal_for("ann"), Privilege.DISCOVER, Securable("shop")
    ).allowed


# ------------------------------------------------------------------ authentication
def test_password_and_token_prove_the_same_user(ann):
    by_password = authentication.prove("ann", PASSWORD, door="gateway")
    made = tokens.create_token(ann, name="cli", expires_in_days=1, by="ann")
    by_token = authentication.prove("ann", made.text, door="gateway")
    bearer = authentication.prove_bearer(made.text, door="rest")
    assert by_password.name == by_token.name == bearer.name == "ann"
    assert by_token.principal.groups == frozenset({"bi"})
    ids = by_password.proof.token_id, by_token.proof.token_id
    assert ids == (None, made.row.pk)


def test_one_user_has_so_many_tokens(ann, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_OF_ONE", 2)
    first = tokens.create_token(ann, name="a", expires_in_days=1, by="ann")
    tokens.create_token(ann, name="b", expires_in_days=1, by="ann")
    with pytest.raises(InvalidRequest, match="2 tokens"):
        tokens.create_token(ann, name="c", expires_in_days=1, by="ann")
    tokens.delete_token(first.row.pk, by=ann)
    tokens.create_token(ann, name="c", expires_in_days=1, by="ann")


def test_a_token_prefix_is_never_tried_as_a_password(ann):
    ann.set_password("slt_looks_like_a_token")
    ann.save()
    with pytest.raises(AccessDenied):
        authentication.prove("ann", "slt_looks_like_a_token", door="gateway")


def test_tokens_end_by_expiry_revocation_and_their_user(ann):
    bob = users.create_user("bob", PASSWORD, by="x")
    made = tokens.create_token(ann, name="cli", expires_in_days=1, by="ann")
    other = tokens.create_token(bob, name="cli", expires_in_days=None, by="bob")

    def is_alive(text: str) -> bool:
        return tokens.find_token(text) is not None

    assert is_alive(made.text)
    assert not is_alive(made.text[:-1] + ("A" if made.text[-1] != "A" else "B"))
    with pytest.raises(AccessDenied):
        authentication.prove("bob", made.text, door="gateway")
    ApiToken.objects.filter(pk=made.row.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    assert not is_alive(made.text)
    with pytest.raises(NotFound):
        tokens.delete_token(other.row.pk, by=ann)
    assert is_alive(other.text)
    users.update_user("bob", users.UserChange(is_active=False), by="x")
    assert not is_alive(other.text)
    tokens.delete_token(made.row.pk, by=ann)
    assert not ApiToken.objects.filter(pk=made.row.pk).exists()


def test_a_former_secret_key_keeps_tokens_alive(ann, settings):
    made = tokens.create_token(ann, name="cli", expires_in_days=None, by="ann")
    former, settings.SECRET_KEY = settings.SECRET_KEY, "another key" * 5
    assert tokens.find_token(made.text) is None
    settings.SECRET_KEY_FALLBACKS = [former]
    assert tokens.find_token(made.text) is not None


def test_the_database_holds_neither_token_nor_password(ann):
    made = tokens.create_token(ann, name="cli", expires_in_days=None, by="ann")
    secret = made.text.split("_", 2)[2]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            text = "\n".join(row[0] for row in cursor.fetchall())
            assert secret not in text, table
            assert PASSWORD not in text, table


def test_guessing_is_slowed_down_per_name_and_address(ann):
    for _ in range(10):
        with pytest.raises(AccessDenied) as failure:
            authentication.prove("ann", "wrong", door="web", address="1.2.3.4")
        assert failure.value.code == "bad_credentials"
    with pytest.raises(AccessDenied) as failure:
        authentication.prove("ann", PASSWORD, door="web", address="1.2.3.4")
    assert failure.value.code == "too_many_attempts"
    assert failure.value.facts["retry_after_seconds"] >= 1
    elsewhere = authentication.prove("ann", PASSWORD, door="web", address="5.6.7.8")
    assert elsewhere.name == "ann"


def test_the_table_of_failures_is_bounded(ann, monkeypatch):
    monkeypatch.setattr("catalog.access.throttle.MOST_ROWS", 5)
    from catalog.access.throttle import count_failure
    from catalog.models import LoginFailure

    for number in range(20):
        count_failure(f"user{number}", "1.2.3.4")
    assert LoginFailure.objects.count() <= 6


@pytest.mark.parametrize("secret", ["", "\x00", "x" * 2_000, "slt_", "slt_x_y"])
def test_odd_secrets_are_refused_without_an_error(ann, secret):
    with pytest.raises(AccessDenied):
        authentication.prove("ann", secret, door="gateway")
    with pytest.raises(AccessDenied):
        authentication.prove("a\x00nn", secret or "x", door="gateway")


# ------------------------------------------------------------------ users
def test_the_last_administrator_stays(ann):
    users.ensure_admin("root", PASSWORD)
    with pytest.raises(InvalidRequest) as failure:
        users.update_user("root", users.UserChange(is_active=False), by="root")
    assert failure.value.code == "last_admin"
    assert User.objects.get(username="root").is_active
    users.update_user("ann", users.UserChange(is_admin=True), by="root")
    users.update_user("root", users.UserChange(is_active=False), by="ann")


def test_ensure_admin_repeats_without_a_trace(ann):
    users.ensure_admin("root", PASSWORD)
    version = policy_feed.current_version()
    users.ensure_admin("root", PASSWORD)
    assert policy_feed.current_version() == version


def test_weak_passwords_and_taken_names_are_refused(ann):
    with pytest.raises(InvalidRequest) as failure:
        users.create_user("bob", "short", by="x")
    assert failure.value.code == "weak_password"
    with pytest.raises(InvalidRequest) as failure:
        users.create_user("ann", PASSWORD, by="x")
    assert failure.value.code == "name_taken"


def test_lake_databases_are_made_once():
    assert lake_database("shop").pk == lake_database("shop").pk
