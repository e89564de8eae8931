"""One slapd for all tests of this folder, emptied before each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.access.ldap_spec import LdapGroups, LdapServers, LdapSpec, LdapUsers
from core.retries import CircuitBreaker
from tests.ldap import GROUPS, PEOPLE, SEARCHER, SEARCHER_PASSWORD, Slapd, running_slapd


@pytest.fixture(scope="session")
def slapd() -> Iterator[Slapd]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-ldap-") as folder,
        running_slapd(Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def directory(slapd: Slapd, settings: Any, monkeypatch: Any) -> Slapd:
    """The directory, empty, with Sluice's settings pointing to it."""
    from catalog.access import ldap_login

    slapd.empty()
    # what a password hash costs is not the matter here
    monkeypatch.setattr(ldap_login, "_breaker", CircuitBreaker(5))
    settings.SLUICE_LDAP = spec_of(slapd)
    return slapd


def spec_of(slapd: Slapd, **servers: Any) -> LdapSpec:
    usual = LdapServers(
        urls=(f"ldaps://127.0.0.1:{slapd.tls_port}",), ca_file=slapd.ca, step_seconds=8
    )
    return LdapSpec(
        servers=replace(usual, **servers),
        users=LdapUsers(bind_dn=SEARCHER, bind_password=SEARCHER_PASSWORD, base=PEOPLE),
        groups=LdapGroups(base=GROUPS, filter="(member={dn})"),
    )
