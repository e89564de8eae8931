"""Settings of directory and provider: read from the environment, kept out of logs."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from catalog.access.group_rules import rules_from
from config import logins
from config.logs import remember_settings
from core.redaction import redact


def test_without_an_address_there_is_neither(monkeypatch):
    assert logins.ldap() is None
    assert logins.oidc() is None
    assert logins.public_url() == ""


def test_all_is_read_and_secrets_come_from_files(monkeypatch, tmp_path, settings):
    (tmp_path / "ldap").write_text("the searcher's password\n")
    (tmp_path / "oidc").write_text("the client's secret\n")
    given = {
        "LDAP_URL": "ldaps://one.example ldaps://two.example",
        "LDAP_BIND_DN": "cn=searcher",
        "LDAP_BIND_PASSWORD_FILE": str(tmp_path / "ldap"),
        "LDAP_USER_BASE": "ou=people",
        "LDAP_GROUP_MAP": "cn=there=here, BI = people",
        "OIDC_ISSUER": "https://id.example",
        "OIDC_CLIENT_ID": "sluice",
        "OIDC_CLIENT_SECRET_FILE": str(tmp_path / "oidc"),
        "PUBLIC_URL": "https://sluice.example/",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    settings.SLUICE_LDAP, settings.SLUICE_OIDC = logins.ldap(), logins.oidc()
    ldap, oidc = settings.SLUICE_LDAP, settings.SLUICE_OIDC
    assert ldap.servers.urls == ("ldaps://one.example", "ldaps://two.example")
    assert ldap.groups.rules.mapping == (("cn=there", "here"), ("bi", "people"))
    assert [*ldap.problems(), *oidc.problems()] == []
    assert logins.public_url() == "https://sluice.example"
    for secret in ("the searcher's password", "the client's secret"):
        assert secret not in f"{ldap} {oidc}"
        remember_settings()
        assert secret not in redact(f"it failed with {secret} in it")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LDAP_GROUP_MAP", "nothing to the right="),
        ("LDAP_GROUP_MAP", "a=b c"),
        ("LDAP_RECHECK_SECONDS", "1"),
        ("LDAP_RECHECK_SECONDS", "soon"),
    ],
)
def test_a_wrong_value_stops_the_start_by_name(monkeypatch, name, value):
    monkeypatch.setenv(f"SLUICE_{name}", value)
    with pytest.raises(ImproperlyConfigured, match=f"SLUICE_{name} cannot be"):
        logins.ldap()


@pytest.mark.parametrize("value", ["sluice.example", "https://host/path", "ftp://host"])
def test_a_public_address_is_a_scheme_and_a_host(monkeypatch, value):
    monkeypatch.setenv("SLUICE_PUBLIC_URL", value)
    with pytest.raises(ImproperlyConfigured):
        logins.public_url()


@pytest.mark.parametrize(
    ("rules", "names", "groups", "is_admin", "is_allowed"),
    [
        (("", "", ""), ["a", "b c", "D"], {"a", "D"}, None, True),
        (("a=x,b=x", "", ""), ["A", "c"], {"x"}, None, True),
        (("a=x", "", ""), [], set(), None, True),
        (("", "Chiefs", ""), ["chiefs"], {"chiefs"}, True, True),
        (("", "chiefs", ""), ["others"], {"others"}, False, True),
        (("", "", "in, too"), ["TOO"], {"TOO"}, None, True),
        (("", "", "in"), ["out"], {"out"}, None, False),
    ],
)
def test_what_groups_mean(rules, names, groups, is_admin, is_allowed):
    means = rules_from(*rules).read(names)
    assert (means.groups, means.is_admin) == (groups, is_admin)
    assert means.is_allowed is is_allowed
