"""What a new password ends, who may set it, and how long tokens live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalog.access import own_password, proofs, tokens
from catalog.access.authentication import prove
from catalog.models import ApiToken, AuditEntry, ExternalIdentity
from core.errors import StaleState
from tests.integration.catalog.asking import Rest, problem
from tests.integration.catalog.conftest import PASSWORD

NEW = "another battery staple"
CHANGE = {"current_password": PASSWORD, "new_password": NEW}


def is_in(who: Rest) -> bool:
    return who("GET", "config").status_code == 200


def test_a_new_password_by_an_administrator_ends_tokens(admin, ann) -> None:
    assert admin("PATCH", "users/ann", {"password": NEW}).status_code == 200
    assert not is_in(ann)
    entry = AuditEntry.objects.filter(action="user.update", object="ann").latest("pk")
    assert entry.facts["ended_credentials"] == 1


def test_tokens_stay_when_that_is_wanted(admin, ann) -> None:
    kept = {"password": NEW, "keep_tokens": True}
    assert admin("PATCH", "users/ann", kept).status_code == 200
    assert is_in(ann)
    assert admin("PATCH", "users/ann", {"groups": ["hr"]}).status_code == 200
    assert is_in(ann), "no new password, nothing ends"


def test_users_change_their_own_password(ann) -> None:
    browser = Client()
    assert browser.login(username="ann", password=PASSWORD)
    assert ann("POST", "password", {**CHANGE, "keep_tokens": True}).status_code == 200
    assert is_in(ann)
    assert browser.get("/preferences").status_code == 302, "the session has ended"
    assert not browser.login(username="ann", password=PASSWORD)
    assert browser.login(username="ann", password=NEW)
    again = {"current_password": NEW, "new_password": PASSWORD}
    assert ann("POST", "password", again).status_code == 200
    assert not is_in(ann)


def test_the_current_password_is_needed_and_no_token_is_one(ann) -> None:
    token = ann.headers["Authorization"].removeprefix("Bearer ")
    for wrong in ("wrong", token):
        body = {**CHANGE, "current_password": wrong}
        refused = problem(ann("POST", "password", body), 400, "wrong_password")
        assert refused["errors"][0]["pointer"] == "/current_password"
    weak = {**CHANGE, "new_password": "short"}
    problem(ann("POST", "password", weak), 400, "weak_password")
    assert User.objects.get(username="ann").check_password(PASSWORD)
    assert is_in(ann)


def test_an_administrators_new_password_is_not_undone(admin, ann, monkeypatch) -> None:
    """Both at once: whoever knew the former one kept the account."""

    def prove_and_wait(*given, **more):
        proven = prove(*given, **more)
        reset = {"password": "what the administrator set"}
        assert admin("PATCH", "users/ann", reset).status_code == 200
        return proven

    monkeypatch.setattr(own_password, "prove", prove_and_wait)
    user = User.objects.get(username="ann")
    with pytest.raises(StaleState, match="at the same time"):
        own_password.change_own_password(
            user, current=PASSWORD, new=NEW, keep_tokens=False, door="ui"
        )
    user.refresh_from_db()
    assert user.check_password("what the administrator set")


def test_guesses_of_the_current_password_are_slowed_down(ann) -> None:
    body = {**CHANGE, "current_password": "guess"}
    codes = {ann("POST", "password", body).json()["code"] for _ in range(12)}
    assert codes == {"wrong_password", "too_many_attempts"}


def test_who_logs_in_elsewhere_changes_it_there(ann) -> None:
    user = User.objects.get(username="ann")
    ExternalIdentity.objects.create(
        user=user, provider="ldap", subject="x", checked_at=datetime.now(UTC)
    )
    assert ann("POST", "password", CHANGE).status_code == 400
    assert user.check_password(PASSWORD)


def test_a_page_changes_ones_own_password(ann) -> None:
    browser = Client()
    assert browser.login(username="ann", password=PASSWORD)
    form = {"current": "wrong", "new": NEW}
    wrong = browser.post("/password", form).content.decode()
    assert "current password is another one" in wrong
    assert NEW not in wrong
    done = browser.post("/password", {**form, "current": PASSWORD}, follow=True)
    assert done.redirect_chain[-1][0].startswith("/login")
    assert browser.login(username="ann", password=NEW)
    assert not is_in(ann)


def test_tokens_live_as_long_as_the_house_says(ann, settings) -> None:
    without_end = {"name": "x", "expires_in_days": None}
    assert ann("POST", "tokens", without_end).status_code == 201
    settings.SLUICE_TOKEN_DAYS = 30
    for days in (None, 31):
        refused = ann("POST", "tokens", {"name": "x", "expires_in_days": days})
        assert "30" in problem(refused, 400, "token_too_long")["detail"]
    made = ann("POST", "tokens", {"name": "x", "expires_in_days": 30})
    assert made.status_code == 201
    for row in ann("GET", "tokens").json()["items"]:
        assert row["expires_at"], "those without end have one now"


def test_a_token_of_former_days_ends_too(ann, settings) -> None:
    user = User.objects.get(username="ann")
    old = tokens.create_token(user, name="old", expires_in_days=None, by="ann")
    made_at = datetime.now(UTC) - timedelta(days=40)
    ApiToken.objects.filter(pk=old.row.pk).update(created_at=made_at)
    proof = proofs.Proof(user.pk, token_id=old.row.pk)
    assert tokens.find_token(old.text)
    assert not proofs.lapsed([proof])
    settings.SLUICE_TOKEN_DAYS = 30
    assert tokens.find_token(old.text) is None
    assert proof in proofs.lapsed([proof])


@pytest.mark.parametrize("name", ["Ann", "ANN", "ann"])
def test_names_differ_in_more_than_their_case(admin, ann, name) -> None:
    body = {"name": name, "password": PASSWORD}
    taken = problem(admin("POST", "users", body), 409, "name_taken")
    assert "'ann'" in taken["detail"]
