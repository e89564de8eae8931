"""A deleted user leaves history and nothing else; the name is not given out again."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalog.access import proofs, users
from catalog.access.external_users import ExternalPerson, admit, hand_over
from catalog.models import ApiToken, AuditEntry, Grant, SavedQuery
from core.errors import AccessDenied, InvalidRequest
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import PASSWORD


def test_what_a_user_had_goes_with_them(admin, ann, person) -> None:
    user = User.objects.get(username="ann")
    proof = proofs.Proof(user.pk, password=proofs.sum_of(user.password))
    for who in ("user:ann", "group:bi"):
        body = {"principal": who, "privilege": "select", "on": "lake"}
        assert admin("POST", "grants", body).status_code == 201
    query = {"name": "q", "sql": "SELECT 1", "is_shared": True}
    assert ann("POST", "saved-queries", query).status_code == 201
    browser = Client()
    assert browser.login(username="ann", password=PASSWORD)
    assert admin("DELETE", "users/ann").status_code == 204
    problem(admin("GET", "users/ann"), 404, "user_not_found")
    assert ann("GET", "config").status_code == 401
    assert browser.get("/").status_code == 302
    assert proof in proofs.lapsed([proof])
    assert not ApiToken.objects.filter(user_id=user.pk).exists()
    assert not SavedQuery.objects.exists()
    assert Grant.objects.get().principal == "group:bi"
    entry = AuditEntry.objects.get(action="user.delete")
    assert (entry.object, entry.actor, entry.facts["grants"]) == ("ann", "root", 1)


@pytest.mark.parametrize("name", ["ann", "ANN"])
def test_the_name_is_not_given_out_again(admin, ann, name) -> None:
    """Who got it would see the statements and jobs of the one before."""
    assert admin("DELETE", "users/ann").status_code == 204
    body = {"name": name, "password": PASSWORD}
    problem(admin("POST", "users", body), 409, "name_taken")
    with pytest.raises(InvalidRequest):
        users.ensure_admin(name, PASSWORD)
    with pytest.raises(AccessDenied):
        admit(ExternalPerson(provider="ldap", subject="x", name=name))
    assert not User.objects.filter(username__iexact="ann").exists()


def test_who_is_renamed_in_the_directory_does_not_come_back(admin) -> None:
    admit(ExternalPerson(provider="ldap", subject="7", name="eve"))
    assert admin("DELETE", "users/eve").status_code == 204
    renamed = ExternalPerson(provider="ldap", subject="7", name="eve.new")
    with pytest.raises(AccessDenied, match="was deleted"):
        admit(renamed)
    assert not User.objects.filter(username="eve.new").exists()
    # another entry of that number elsewhere, and an administrator's own decision
    admit(ExternalPerson(provider="oidc", subject="7", name="eva"))
    users.create_user("back", PASSWORD, by="root")
    hand_over("back", provider="ldap", subject="7")
    assert admit(renamed).username == "back"


def test_some_stay(admin, ann, person) -> None:
    problem(admin("DELETE", "users/root"), 400, "own_user")
    problem(ann("DELETE", "users/root"), 403, "admin_only")
    problem(admin("DELETE", "users/nobody"), 404, "user_not_found")
    other = person("other", is_admin=True)
    assert other("DELETE", "users/root").status_code == 204
    problem(other("DELETE", "users/other"), 400, "own_user")


def test_the_page_shows_what_goes_and_deletes(admin, ann) -> None:
    browser = Client()
    assert browser.login(username="root", password=PASSWORD)
    assert "Delete user ann?" in browser.get("/users/ann/delete").content.decode()
    assert User.objects.filter(username="ann").exists()
    done = browser.post("/users/ann/delete", follow=True).content.decode()
    assert "User ann deleted." in done
    assert not User.objects.filter(username="ann").exists()
    refused = browser.post("/users/root/delete").content.decode()
    assert "cannot delete yourself" in refused
