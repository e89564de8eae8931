"""Looking again whether people are still at the directory: who is out, who is back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from catalog.access import ldap_login, policy_feed, tokens, users
from catalog.access.ldap_directory import Directory
from catalog.models import ExternalIdentity
from tests.integration.ldap.conftest import spec_of
from tests.integration.ldap.test_ldap_login import PASSWORD, groups_of, log_in, refused

pytestmark = pytest.mark.django_db


def recheck(settings: Any) -> int:
    settings.SLUICE_LDAP = replace(settings.SLUICE_LDAP, recheck_seconds=-1)
    return ldap_login.recheck_due()


def test_who_is_gone_there_is_out_here_and_comes_back(directory, settings):
    dn = directory.add_person("ann", PASSWORD)
    ann = User.objects.get(pk=log_in().row.pk)
    token = tokens.create_token(ann, name="t", expires_in_days=None, by="x").text
    assert recheck(settings) == 1
    assert tokens.find_token(token)
    directory.remove(dn)
    assert recheck(settings) == 1
    assert not policy_feed.policy_for(
        "ann"
    ).is_active  # the gateway ends sessions on it
    assert tokens.find_token(token) is None
    directory.add_person("ann", PASSWORD)  # a new entry is a new person
    assert refused() == "login_refused"
    ExternalIdentity.objects.update(subject=_id_of(settings, "ann"))
    assert recheck(settings) == 1
    assert policy_feed.policy_for("ann").is_active


def test_a_filter_that_no_longer_fits_and_lost_groups_are_found_again(
    directory, settings
):
    dn = directory.add_person("ann", PASSWORD, employeeType="staff")
    directory.put_group("bi", dn)
    log_in()
    directory.put_group("bi")
    recheck(settings)
    assert groups_of("ann") == set()
    spec = settings.SLUICE_LDAP
    only = replace(spec.users, filter="(&(uid={user})(employeeType=boss))")
    settings.SLUICE_LDAP = replace(spec, users=only)
    recheck(settings)
    assert not User.objects.get(username="ann").is_active


@pytest.mark.parametrize(
    ("before", "after", "is_new"),
    [
        ("134000000000000000", "134000000000000001", True),
        ("134000000000000001", "134000000000000000", False),  # a replica that lags
        ("134000000000000000", "0", False),  # has to be changed, is still the old one
        ("0", "134000000000000000", True),
    ],
)
def test_only_a_later_date_is_a_new_password(
    directory, settings, before, after, is_new
):
    dn = directory.add_person("ann", PASSWORD, pwdLastSet=before)
    first = log_in().proof.password
    directory.date_password(dn, after)
    recheck(settings)
    assert (log_in().proof.password != first) is is_new


def test_a_directory_that_dates_no_passwords_ends_nothing(directory, settings):
    dn = directory.add_person("ann", PASSWORD)
    first = log_in().proof.password
    recheck(settings)
    directory.date_password(dn, "134000000000000000")  # the first date seen
    recheck(settings)
    assert log_in().proof.password == first


def test_an_outage_suspends_nobody_and_who_was_switched_off_stays_off(
    directory, settings
):
    directory.add_person("ann", PASSWORD)
    log_in()
    up = settings.SLUICE_LDAP
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    assert recheck(settings) == 0
    assert User.objects.get(username="ann").is_active
    users.update_user("ann", users.UserChange(is_active=False), by="x")
    settings.SLUICE_LDAP = up
    assert recheck(settings) == 0
    assert refused() == "login_refused"


def test_a_check_of_who_is_still_there_costs_two_searches(
    directory, settings, monkeypatch
):
    dn = directory.add_person("ann", PASSWORD)
    log_in()
    searches = []
    search = Directory._search
    monkeypatch.setattr(
        Directory,
        "_search",
        lambda self, base, *rest: searches.append(base) or search(self, base, *rest),
    )
    recheck(settings)
    assert searches == [
        settings.SLUICE_LDAP.users.base,
        settings.SLUICE_LDAP.groups.base,
    ]
    directory.rename(dn, "anna")
    recheck(settings)
    assert User.objects.get(username="ann").is_active


def test_who_cannot_be_checked_lets_others_be_checked_first(
    directory, settings, monkeypatch
):
    monkeypatch.setattr(ldap_login.dispatch, "ring_recheck", lambda: True)
    directory.add_person("ann", PASSWORD)
    directory.add_person("bob", PASSWORD, mail="bob")
    for age, name in ((2, "ann"), (1, "bob")):
        log_in(name)
        at = datetime.now(UTC) - timedelta(days=age)
        ExternalIdentity.objects.filter(user__username=name).update(checked_at=at)
    spec = settings.SLUICE_LDAP
    by_mail = replace(spec.users, name_attribute="mail")  # which ann has not
    settings.SLUICE_LDAP = replace(spec, users=by_mail, recheck_seconds=3600)
    assert [ldap_login.recheck_due(most=1) for _ in range(3)] == [1, 1, 0]
    ann, bob = (
        ExternalIdentity.objects.get(user__username=name) for name in ("ann", "bob")
    )
    assert ann.failed_at is not None
    assert ann.user.is_active
    assert bob.failed_at is None
    assert datetime.now(UTC) - bob.checked_at < timedelta(hours=1)


def _id_of(settings: Any, name: str) -> str:
    with Directory(settings.SLUICE_LDAP) as looking:
        entry = looking.entry_named(name)
        assert entry is not None
        return entry.subject
