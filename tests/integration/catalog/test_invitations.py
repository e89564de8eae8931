"""A link makes one user, once: the one that its issuer named, and no administrator."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import F
from django.test import Client

from catalog.access import groups, invitations, users
from catalog.access.external_users import ExternalPerson, admit, hand_over, suspend
from catalog.access.group_rules import Membership
from catalog.access.invitations import PREFIX
from catalog.api import people
from catalog.models import AccessRule, AuditEntry, Grant, Invitation
from core.redaction import redact
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import PASSWORD

TOKEN = re.compile(r"[A-Za-z0-9]{64}")
FORM = {"password": PASSWORD, "again": PASSWORD}


@pytest.fixture
def link(admin) -> str:
    body = {"name": "zoe", "groups": ["bi"]}
    made = admin("POST", "invitations", body)
    assert made.status_code == 201, made.content
    return made.json()["path"]


def is_refused(path: str, **form: str) -> None:
    """By GET and POST alike, in the words of one that never was."""
    unknown = Client().get(f"/invited/{PREFIX}{'0' * 12}_{'x' * 43}")
    for reply in (Client().get(path), Client().post(path, FORM | form)):
        assert reply.status_code == 404
        text = reply.content.decode()
        assert "This invitation is not valid." in text
        # random letters of its token may spell anything
        assert "zoe" not in TOKEN.sub("", text.replace(path, ""))
        assert len(text) == pytest.approx(len(unknown.content.decode()), abs=200)


def test_the_link_sets_the_password_and_logs_in(link, admin) -> None:
    browser = Client()
    assert browser.get(link).status_code == 200
    assert not User.objects.filter(username="zoe").exists()
    done = browser.post(link, FORM, follow=True)
    assert "Welcome, zoe." in done.content.decode()
    zoe = User.objects.get(username="zoe")
    assert zoe.check_password(PASSWORD)
    assert [group.name for group in zoe.groups.all()] == ["bi"]
    assert not zoe.is_superuser
    assert not zoe.is_staff
    actions = AuditEntry.objects.filter(object="zoe").values_list("action", "actor")
    assert set(actions) == {
        ("invitation.create", "root"),
        ("user.create", "root"),
        ("invitation.accept", "zoe"),
    }


def test_it_works_once(link) -> None:
    assert Client().post(link, FORM).status_code == 302
    is_refused(link)


def test_it_expires(link) -> None:
    Invitation.objects.update(expires_at=F("created_at") - timedelta(seconds=1))
    is_refused(link)


@pytest.mark.parametrize(
    "change", [users.UserChange(is_active=False), users.UserChange(is_admin=False)]
)
def test_it_ends_with_its_issuer(link, person, change) -> None:
    person("other", is_admin=True)
    users.update_user("root", change, by="other")
    is_refused(link)
    users.update_user("root", users.UserChange(is_active=True, is_admin=True), by="x")
    is_refused(link)


def test_it_ends_with_a_deleted_or_suspended_issuer(link, person) -> None:
    other = person("other", is_admin=True)
    User.objects.filter(username="root").update(is_active=False)  # by a directory
    is_refused(link)
    User.objects.filter(username="root").update(is_active=True)
    assert other("DELETE", "users/root").status_code == 204
    is_refused(link)


@pytest.mark.parametrize("what", ["suspended", "demoted"])
def test_it_does_not_come_back_with_an_issuer_whom_a_directory_let_go(
    link, what: str
) -> None:
    def root(*, is_admin: bool) -> ExternalPerson:
        return ExternalPerson("corp", "1", "root", Membership(is_admin=is_admin))

    hand_over("root", provider="corp", subject="1")
    admit(root(is_admin=True))
    assert Client().get(link).status_code == 200
    if what == "suspended":
        assert suspend("corp", "1", reason="test")
    else:
        admit(root(is_admin=False))
    is_refused(link)
    assert admit(root(is_admin=True)).is_superuser
    is_refused(link)


@pytest.mark.parametrize("at", [len("/invited/"), 20, -1])
def test_it_is_not_guessed(link, at) -> None:
    letters = list(link)
    letters[at] = "A" if letters[at] != "A" else "B"
    is_refused("".join(letters))
    assert Invitation.objects.get().digest not in link


def test_the_text_is_kept_nowhere(link, admin) -> None:
    secret = link.rpartition("/")[2]
    kept = [*Invitation.objects.values(), *AuditEntry.objects.values()]
    assert secret[16:] not in json.dumps(kept, default=str)
    assert secret not in admin("GET", "invitations").content.decode()
    assert secret[16:] not in redact(f"GET {link} 200")


def test_the_form_chooses_neither_name_nor_groups_nor_rights(link) -> None:
    Group.objects.create(name="finance")
    more = {"username": "root", "name": "root", "groups": "finance", "is_admin": "on"}
    assert Client().post(link, FORM | more).status_code == 302
    zoe = User.objects.get(username="zoe")
    assert [group.name for group in zoe.groups.all()] == ["bi"]
    assert not zoe.is_superuser


def test_a_group_that_was_deleted_is_not_joined(link, admin) -> None:
    """Nor is another one that got its name meanwhile."""
    assert admin("DELETE", "groups/bi").status_code == 204
    Group.objects.create(name="bi")
    assert Client().post(link, FORM).status_code == 302
    assert not User.objects.get(username="zoe").groups.exists()


def test_a_weak_or_mistyped_password_uses_nothing_up(link) -> None:
    weak = {"password": "short", "again": "short"}
    for form in (weak, FORM | {"again": "x"}, {}, {"password": "zoe", "again": "zoe"}):
        assert Client().post(link, form).status_code == 400
    assert Client().post(link, FORM).status_code == 302


def test_a_name_that_somebody_got_meanwhile(link, admin) -> None:
    admin("POST", "users", {"name": "ZOE", "password": PASSWORD})
    refused = Client().post(link, FORM)
    assert refused.status_code == 400
    assert "already a user" in refused.content.decode()
    assert not User.objects.filter(username="zoe").exists()


def test_who_is_logged_in_is_asked_to_log_out(link, admin) -> None:
    browser = Client()
    assert browser.login(username="root", password=PASSWORD)
    assert browser.post(link, FORM).status_code == 403
    assert not User.objects.filter(username="zoe").exists()


def test_a_form_from_elsewhere_is_refused(link) -> None:
    assert Client(enforce_csrf_checks=True).post(link, FORM).status_code == 403
    assert Invitation.objects.exists()


def test_a_second_invitation_ends_the_first(link, admin) -> None:
    second = admin("POST", "invitations", {"name": "Zoe"}).json()["path"]
    is_refused(link)
    assert Client().post(second, FORM).status_code == 302
    assert not User.objects.get(username="Zoe").groups.exists()


def test_two_invitations_at_once_leave_one(link, admin, monkeypatch) -> None:
    # the second one looked before the first was there
    monkeypatch.setattr(invitations, "_make_room", lambda _: None)
    problem(admin("POST", "invitations", {"name": "zoe"}), 409, "name_taken")
    assert Client().post(link, FORM).status_code == 302


def test_what_is_refused_to_invite(admin, ann) -> None:
    problem(admin("POST", "invitations", {"name": "ann"}), 409, "name_taken")
    problem(admin("POST", "invitations", {"name": "a b"}), 400, "invalid_name")
    for days in (0, 31):
        body = {"name": "zoe", "expires_in_days": days}
        problem(admin("POST", "invitations", body), 400, "invalid_request")
    body = {"name": "zoe", "is_admin": True}
    problem(admin("POST", "invitations", body), 400, "unknown_field")
    problem(ann("POST", "invitations", {"name": "zoe"}), 403, "admin_only")
    problem(admin("DELETE", "invitations/1"), 404, "invitation_not_found")


def test_it_is_withdrawn(link, admin) -> None:
    listed = admin("GET", "invitations").json()["items"]
    assert [(one["name"], one["groups"]) for one in listed] == [("zoe", ["bi"])]
    assert admin("DELETE", f"invitations/{listed[0]['id']}").status_code == 204
    is_refused(link)


# ---------------------------------------------------------------- groups
def test_a_group_shows_the_first_of_its_members(admin, ann, person, monkeypatch):
    monkeypatch.setattr(people, "MOST_MEMBERS", 2)
    for name in ("zed", "bob", "cai"):
        users.update_user(
            person(name) and name, users.UserChange(groups=["bi"]), by="root"
        )
    shown = {"name": "bi", "members": ["ann", "bob"], "member_count": 4}
    assert admin("GET", "groups/bi").json() == shown
    other = {"name": "ops", "members": [], "member_count": 0}
    Group.objects.create(name="ops")
    assert admin("GET", "groups").json()["items"] == [shown, other]
    everyone = admin("GET", "users?group=bi").json()["items"]
    assert [one["name"] for one in everyone] == ["ann", "bob", "cai", "zed"]


def test_a_group_goes_with_its_grants(admin, ann) -> None:
    body = {"principal": "group:bi", "privilege": "select", "on": "lake"}
    assert admin("POST", "grants", body).status_code == 201
    assert admin("GET", "groups/bi").json() == {
        "name": "bi",
        "members": ["ann"],
        "member_count": 1,
    }
    problem(ann("DELETE", "groups/bi"), 403, "admin_only")
    assert admin("DELETE", "groups/bi").status_code == 204
    assert not Grant.objects.exists()
    assert admin("GET", "users/ann").json()["groups"] == []
    problem(admin("DELETE", "groups/bi"), 404, "group_not_found")


def test_a_rule_that_is_saved_meanwhile_keeps_its_group(
    admin, ann, monkeypatch
) -> None:
    """Who raises the version waits for rules that are being saved."""
    on = {"datasource": "lake", "database": "shop", "table": "orders"}

    def saved_meanwhile() -> None:
        AccessRule.objects.create(**on, applies_to=["group:bi"])

    monkeypatch.setattr(groups, "bump_version", saved_meanwhile)
    problem(admin("DELETE", "groups/bi"), 409, "group_in_rules")


@pytest.mark.parametrize("where", ["applies_to", "excepted"])
def test_a_group_that_rules_name_stays(admin, ann, where) -> None:
    """Without it the rule would bind others than it says."""
    on = {"datasource": "lake", "database": "shop", "table": "orders"}
    AccessRule.objects.create(**on, **{where: ["group:bi"]})
    problem(admin("DELETE", "groups/bi"), 409, "group_in_rules")
    assert Group.objects.filter(name="bi").exists()
