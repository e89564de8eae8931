"""`manage.py ldap_check` names the step that fails, and changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command

from catalog.access import users
from catalog.access.authentication import prove
from catalog.access.ldap_spec import DirectoryAway
from config.supervisor import doctor
from core.errors import AccessDenied
from tests.integration.ldap.conftest import spec_of

pytestmark = pytest.mark.django_db


def check(capsys: Any, *arguments: str) -> tuple[bool, str]:
    try:
        call_command("ldap_check", *arguments)
    except SystemExit:
        return False, capsys.readouterr().out
    return True, capsys.readouterr().out


def test_a_login_that_would_work(directory, capsys, monkeypatch):
    dn = directory.add_person("ann", "the right one")
    directory.put_group("bi", dn)
    monkeypatch.setattr("getpass.getpass", lambda: "the right one")
    is_good, said = check(capsys, "ANN", "--password")
    assert is_good, said
    for line in (
        f"entry: {dn}, id ",
        "groups here: bi",
        "password: right",
        "'ann' would be made",
    ):
        assert line in said
    assert not User.objects.exists()
    assert not Group.objects.exists()
    assert "the right one" not in said


@pytest.mark.parametrize(
    ("arguments", "typed", "line"),
    [
        (("nobody",), "", "PROBLEM  entry: no user below"),
        (("a*",), "", "PROBLEM  name"),
        (("ann", "--password"), "wrong", "PROBLEM  password: refused"),
    ],
)
def test_the_step_that_fails(directory, capsys, monkeypatch, arguments, typed, line):
    directory.add_person("ann", "the right one")
    monkeypatch.setattr("getpass.getpass", lambda: typed)
    is_good, said = check(capsys, *arguments)
    assert not is_good
    assert line in said


def test_what_stands_in_the_way_here(directory, settings, capsys):
    dn = directory.add_person("ann", "the right one")
    directory.put_group("bi", dn)
    users.create_user("ann", "a long password", groups=["bi"], by="x")
    said = check(capsys, "ann")[1]
    assert "the name is taken here by 'ann'" in said
    assert "left out, because groups of that name are local: bi" in said
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldap://127.0.0.1:1",))
    assert "in plain text -> use ldaps://" in check(capsys, "ann")[1]
    settings.SLUICE_LDAP = spec_of(
        directory, ca_file=f"{directory.folder}/other-ca.pem"
    )
    assert (
        "PROBLEM  directory: the directory does not answer" in check(capsys, "ann")[1]
    )
    settings.SLUICE_LDAP = None
    assert "set SLUICE_LDAP_URL" in check(capsys, "ann")[1]


def test_bad_settings_stop_the_start(directory, settings):
    from config.checks import check_settings

    assert not [one for one in check_settings(None) if one.id == "sluice.E007"]
    spec = spec_of(directory, urls=("ldap://127.0.0.1:389", "http://x"))
    settings.SLUICE_LDAP = replace(
        spec, users=replace(spec.users, bind_password="", filter="(uid=x)")
    )
    found = [one.msg for one in check_settings(None) if one.id == "sluice.E007"]
    assert len(found) == 4, found


def test_a_local_user_is_handed_over_with_what_he_has(directory, capsys):
    directory.add_person("ann", "the right one")
    ann = users.create_user("ann", "a long password", groups=["bi"], by="x")
    with pytest.raises(CommandError, match="no active user"):
        call_command("ldap_link", "bob")
    call_command("ldap_link", "ann")
    proven = prove("ann", "the right one", door="web")
    assert (proven.row, proven.principal.groups) == (ann, {"bi"})
    with pytest.raises(AccessDenied):
        prove("ann", "a long password", door="web")
    with pytest.raises(CommandError, match="already belongs to a user"):
        call_command("ldap_link", "ann")


def test_doctor_asks_the_directory(directory, settings):
    assert doctor.directory()[0].is_ok
    settings.SLUICE_LDAP = spec_of(directory, urls=("ldaps://127.0.0.1:1",))
    with pytest.raises(DirectoryAway):
        doctor.directory()
