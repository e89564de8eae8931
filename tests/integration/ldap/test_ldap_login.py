"""Log-ins by a real directory: who comes in, who does not, and what stays local."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from catalog.access import grants, ldap_login, policy_feed, users
from catalog.access.authentication import prove
from catalog.access.group_rules import rules_from
from catalog.access.ldap_directory import (
    Directory,
    DirectoryAway,
    DirectoryMisconfigured,
)
from catalog.access.ldap_spec import LdapUsers
from catalog.models import AuditEntry
from core.errors import AccessDenied, InvalidRequest
from core.retries import CircuitBreaker
from tests.integration.ldap.conftest import spec_of
from tests.ldap import PEOPLE

pytestmark = pytest.mark.django_db
PASSWORD = "ann's long password"


def log_in(name: str = "ann", password: str = PASSWORD) -> Any:
    return prove(name, password, door="gateway", address="10.0.0.1")


def refused(name: str = "ann", password: str = PASSWORD) -> str:
    with pytest.raises(AccessDenied) as caught:
        log_in(name, password)
    return caught.value.code


def groups_of(name: str) -> set[str]:
    return set(User.objects.get(username=name).groups.values_list("name", flat=True))


def with_rules(settings: Any, *rules: str) -> None:
    spec = settings.SLUICE_LDAP
    changed = replace(spec.groups, rules=rules_from(*rules))
    settings.SLUICE_LDAP = replace(spec, groups=changed)


# ------------------------------------------------------------------ coming in
def test_the_first_login_makes_the_user_and_later_ones_find_him(directory):
    dn = directory.add_person("ann", PASSWORD)
    directory.put_group("bi", dn)
    first = log_in()
    assert (first.name, first.principal.groups, first.principal.is_admin) == (
        "ann",
        {"bi"},
        False,
    )
    assert log_in("ANN").row.pk == first.row.pk
    assert User.objects.filter(username__iexact="ann").count() == 1
    assert not User.objects.get(username="ann").has_usable_password()
    actions = AuditEntry.objects.filter(object="ann").values_list("action", flat=True)
    assert list(actions.order_by("id")) == ["user.create", "login", "login"]


def test_wrong_passwords_and_unknown_names_look_alike_and_are_throttled(directory):
    directory.add_person("ann", PASSWORD)
    assert refused(password="wrong") == refused("nobody") == "bad_credentials"
    for number in range(9):
        assert refused("ann" if number % 2 else "aNN", "wrong") == "bad_credentials"
    assert refused("Ann") == "too_many_attempts"


def test_an_empty_password_never_reaches_the_network(directory, settings):
    directory.add_person("ann", PASSWORD)
    with Directory(settings.SLUICE_LDAP) as looking:
        entry = looking.entry_named("ann")
        assert entry is not None
        assert not looking.has_password(entry, "")  # this server would let it in
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    assert refused(password="") == "bad_credentials"
    assert ldap_login.log_in("ann", "") is None


@pytest.mark.parametrize(
    "password",
    # what SASLprep makes nothing of, or an error: this server would let "" in
    [
        "\u00ad",
        "\u2060\ufe00",
        " ",
        "a\x07",
        "\ue000",
        "\u0627a",
        "\U000e0001",
        "\ud800",
    ],
)
def test_odd_passwords_are_wrong_and_nothing_else(directory, password):
    directory.add_person("ann", PASSWORD)
    assert refused(password=password) == "bad_credentials"
    assert not ldap_login._breaker.failed  # odd names cannot open the breaker


def test_passwords_are_not_only_ascii(directory):
    directory.add_person("ann", "grüße an dich 密码")
    assert log_in(password="grüße an dich 密码").name == "ann"


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "a*",
        "ann)(uid=*",
        "*)(objectClass=*",
        "ann\\2a",
        " ann",
        "ann\n",
        "ann,ou=people",
    ],
)
def test_names_cannot_change_the_question(directory, settings, name):
    directory.add_person("ann", PASSWORD)
    with Directory(settings.SLUICE_LDAP) as looking:
        found = looking.entry_named(name)
        # the directory itself ignores blanks around a name
        assert found is None or found.name == name.strip() == "ann"
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    assert refused(name) == "bad_credentials"  # without a question, too


def test_who_has_no_searching_account_lets_users_bind_themselves(directory, settings):
    directory.add_person("ann", PASSWORD)
    own = LdapUsers(direct_dn=f"uid={{user}},{PEOPLE}")
    settings.SLUICE_LDAP = replace(
        settings.SLUICE_LDAP,
        users=own,
        groups=replace(settings.SLUICE_LDAP.groups, base=""),
    )
    assert log_in().name == "ann"
    assert refused(password="wrong") == "bad_credentials"
    with Directory(settings.SLUICE_LDAP) as looking:
        assert looking.entry_by_password("ann,ou=people", PASSWORD) is None


# ------------------------------------------------------------------ TLS and outages
def test_starttls_is_as_good(directory, settings):
    directory.add_person("ann", PASSWORD)
    plain = (f"ldap://127.0.0.1:{directory.plain_port}",)
    settings.SLUICE_LDAP = spec_of(directory, urls=plain, start_tls=True)
    assert log_in().name == "ann"


@pytest.mark.parametrize(
    "wrong",
    [
        {"ca_file": "other-ca.pem"},  # signed by somebody else
        {"ca_file": ""},  # the system's authorities do not know ours
        {"urls": "ldaps://localhost:{tls}"},  # the certificate says 127.0.0.1
        {"urls": "ldap://localhost:{plain}", "start_tls": True},
    ],
)
def test_a_server_that_cannot_prove_its_name_gets_no_password(
    directory, settings, wrong
):
    directory.add_person("ann", PASSWORD)
    changes: dict[str, Any] = dict(wrong)
    if changes.get("ca_file"):
        changes["ca_file"] = str(directory.folder / changes["ca_file"])
    if "urls" in changes:
        ports = {"tls": directory.tls_port, "plain": directory.plain_port}
        changes["urls"] = (changes["urls"].format(**ports),)
    settings.SLUICE_LDAP = spec_of(directory, **changes)
    with pytest.raises(DirectoryAway):
        log_in()


def test_without_the_directory_local_users_go_on(directory, settings, caplog):
    users.create_user("root", PASSWORD, is_admin=True, by="x")
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    with caplog.at_level(logging.DEBUG):
        for _ in range(12):
            with pytest.raises(DirectoryAway) as caught:
                log_in(password="a very secret word")
    assert caught.value.code == "directory_unavailable"
    assert log_in("root").principal.is_admin
    assert "a very secret word" not in caplog.text + str(caught.value)


def test_a_silent_server_costs_one_wait_not_one_per_login(
    directory, settings, monkeypatch
):
    import socket

    monkeypatch.setattr(ldap_login, "_breaker", CircuitBreaker(60))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ldaps://127.0.0.1:{silent.getsockname()[1]}"
        settings.SLUICE_LDAP = spec_of(directory, urls=(url,), step_seconds=1)
        for _ in range(3):
            with pytest.raises(DirectoryAway):
                log_in()
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # nobody else asked
            silent.accept()


def test_a_second_server_answers_for_the_first(directory, settings):
    directory.add_person("ann", PASSWORD)
    both = ("ldaps://127.0.0.1:1", *settings.SLUICE_LDAP.servers.urls)
    settings.SLUICE_LDAP = spec_of(directory, urls=both)
    assert log_in().name == "ann"


@pytest.mark.parametrize(
    "change", [{"bind_password": "wrong"}, {"base": "ou=nowhere,dc=sluice,dc=test"}]
)
def test_wrong_settings_are_an_error_never_a_wrong_password(
    directory, settings, change
):
    spec = settings.SLUICE_LDAP
    settings.SLUICE_LDAP = replace(spec, users=replace(spec.users, **change))
    with pytest.raises(DirectoryMisconfigured):
        log_in()


def test_two_entries_of_one_name_are_nobody(directory, settings):
    directory.add_person("ann", PASSWORD)
    directory.add_person("ann2", PASSWORD, mail="ann")
    spec = settings.SLUICE_LDAP
    both = replace(spec.users, filter="(|(uid={user})(mail={user}))")
    settings.SLUICE_LDAP = replace(spec, users=both)
    with pytest.raises(DirectoryMisconfigured):
        log_in()


# ------------------------------------------------------------------ whose is the name
def test_a_local_name_stays_local(directory):
    users.create_user("ann", "another long password", by="x")
    directory.add_person("ann", PASSWORD)
    assert refused() == "bad_credentials"
    assert refused("ANN") == "login_refused"
    entry = AuditEntry.objects.filter(is_allowed=False).latest("id")
    assert entry.facts["reason"] == "name_taken"


def test_a_renamed_person_is_the_same_user_and_his_old_name_nobody_elses(directory):
    dn = directory.add_person("ann", PASSWORD)
    ann = log_in()
    directory.rename(dn, "anna")
    assert log_in("anna").row.pk == ann.row.pk
    assert refused("ann") == "bad_credentials"
    directory.add_person("ann", "the new one's password")
    assert refused("ann", "the new one's password") == "login_refused"


def test_the_password_is_changed_there_and_createadmin_makes_the_name_local(directory):
    directory.add_person("ann", PASSWORD)
    log_in()
    with pytest.raises(InvalidRequest, match="directory"):
        users.update_user("ann", users.UserChange(password="x" * 20), by="x")
    users.ensure_admin("ann", "a way back in")
    assert log_in(password="a way back in").principal.is_admin
    assert refused() == "bad_credentials"


# ------------------------------------------------------------------ groups
def test_only_groups_of_the_directory_follow_it(directory):
    dn = directory.add_person("ann", PASSWORD)
    users.create_user("bob", PASSWORD, groups=["local", "treasury"], by="x")
    directory.put_group("bi", dn)
    directory.put_group("treasury", dn)  # a local group of that name was there first
    log_in()
    assert groups_of("ann") == {"bi"}
    User.objects.get(username="ann").groups.add(Group.objects.get(name="local"))
    given = grants.grant(principal="user:ann", privilege="select", on="lake", by="x")
    directory.put_group("bi")
    directory.put_group("ops", dn)
    version = policy_feed.current_version()
    log_in()
    assert groups_of("ann") == {"local", "ops"}
    assert groups_of("bob") == {"local", "treasury"}
    assert policy_feed.current_version() > version
    assert grants.rows_for(policy_feed.principal_for("ann")).get() == given
    log_in()
    assert policy_feed.current_version() == version + 1


def test_a_mapping_names_groups_administrators_and_who_may_come(directory, settings):
    dn = directory.add_person("ann", PASSWORD)
    Group.objects.create(name="finance")
    directory.put_group("Bi People", dn)
    with_rules(settings, "bi people=finance", "chiefs", "bi people")
    assert log_in().principal.groups == {"finance"}
    directory.put_group("chiefs", dn)
    assert log_in().principal.is_admin
    directory.put_group("chiefs")
    assert not log_in().principal.is_admin
    directory.put_group("Bi People")
    assert refused() == "login_refused"
    assert not User.objects.get(username="ann").is_active
    directory.put_group("Bi People", dn)
    assert log_in().principal.groups == {"finance"}


def test_a_slow_directory_leaves_threads_to_local_logins(directory, monkeypatch):
    """Who finds no place there is refused soon, and the directory counts as there."""
    directory.add_person("ann", PASSWORD)
    users.create_user("local", "correct horse battery", by="root")
    monkeypatch.setattr(ldap_login, "QUEUE_SECONDS", 0)
    with contextlib.ExitStack() as asking:
        for _ in range(ldap_login.ASKED_AT_ONCE):
            asking.enter_context(ldap_login._place())
        with pytest.raises(DirectoryAway, match="other logins wait"):
            log_in()
        assert log_in("local", "correct horse battery").name == "local"
        assert not ldap_login._breaker.failed
    assert log_in().name == "ann"
