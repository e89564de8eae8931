"""The steps of `manage.py ldap_check`: what the directory says, what follows here.

Reads only. It stops at the first step that fails: the later ones could not say more.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.models import Group, User

from catalog.access.ldap_directory import Directory
from catalog.access.ldap_spec import PROVIDER, DirectoryEntry, LdapSpec
from catalog.models import ExternalIdentity
from catalog.names import is_principal_name
from config.supervisor.doctor import Finding
from core.errors import SluiceError


def examine_login(user: str, password: str) -> Iterator[Finding]:
    """Every step in the order of a login. `password` is tried when given."""
    spec = settings.SLUICE_LDAP
    if spec is None:
        yield Finding("settings", "no directory is set", "set SLUICE_LDAP_URL")
        return
    problems = list(spec.problems())
    yield from (Finding("settings", text, hint) for text, hint in problems)
    if problems:
        return
    yield Finding("settings", f"directory {' '.join(spec.servers.urls)}")
    if not is_principal_name(user):
        yield Finding(
            "name", "this cannot be a user's name", "log in as its owner does"
        )
        return
    try:
        with Directory(spec) as directory:
            yield from _steps(spec, directory, user, password)
    except SluiceError as error:
        yield Finding("directory", error.message, error.hint or "see the message")


def _steps(
    spec: LdapSpec, directory: Directory, user: str, password: str
) -> Iterator[Finding]:
    if spec.can_search:
        directory.connect()
        yield Finding("account", f"{spec.users.bind_dn} may log in")
        entry = directory.entry_named(user)
        if entry is None:
            text = f"no user below {spec.users.base} fits {spec.users.filter}"
            yield Finding(
                "entry", text, "correct SLUICE_LDAP_USER_BASE or _USER_FILTER"
            )
            return
        if password and not directory.has_password(entry, password):
            yield Finding("password", "refused", "it is wrong, expired or locked there")
            return
    else:
        if not password:
            advice = "call again with --password"
            yield Finding("account", "only the user himself can be looked up", advice)
            return
        found = directory.entry_by_password(user, password)
        if found is None:
            yield Finding("password", "refused", "check it, and SLUICE_LDAP_DIRECT_DN")
            return
        entry = found
    tried = "right" if password else "not tried (--password)"
    yield Finding("entry", f"{entry.dn}, id {entry.subject}, named {entry.name}")
    yield Finding("password", tried)
    if entry.is_disabled:
        yield Finding("entry", "it is disabled there", "enable it in the directory")
    yield from _groups(spec, directory, entry)
    yield _user(entry)


def _groups(
    spec: LdapSpec, directory: Directory, entry: DirectoryEntry
) -> Iterator[Finding]:
    names = directory.groups_of(entry)
    there = ", ".join(sorted(names)) or "none"
    yield Finding("groups there", there if spec.groups.base else "not looked up")
    means = spec.groups.rules.read(names)
    local = Group.objects.filter(name__in=means.groups, directory_group=None)
    kept = set() if means.is_mapped else set(local.values_list("name", flat=True))
    here = ", ".join(sorted(means.groups - kept)) or "none"
    yield Finding("groups here", here)
    if kept:
        advice = "name them in SLUICE_LDAP_GROUP_MAP if the directory shall own them"
        text = f"left out, because groups of that name are local: {', '.join(kept)}"
        yield Finding("groups here", text, advice)
    if means.is_admin is not None:
        yield Finding("administrator", "yes" if means.is_admin else "no")
    if not means.is_allowed:
        advice = "add the user to a group of SLUICE_LDAP_ALLOWED_GROUPS"
        yield Finding("allowed", "in no group that may log in", advice)


def _user(entry: DirectoryEntry) -> Finding:
    identity = (
        ExternalIdentity.objects.select_related("user")
        .filter(provider=PROVIDER, subject=entry.subject)
        .first()
    )
    if identity is None:
        return _new_user(entry.name.lower())
    name = identity.user.username
    if identity.is_suspended:
        return Finding("user", f"'{name}' is suspended; the next login lifts that")
    if not identity.user.is_active:
        advice = "switch it on again under Users"
        return Finding("user", f"'{name}' was switched off here", advice)
    return Finding("user", f"'{name}'")


def _new_user(name: str) -> Finding:
    if not is_principal_name(name):
        return Finding("user", f"'{name}' cannot be a name here", "rename it there")
    taken = User.objects.filter(username__iexact=name).first()
    if taken is not None:
        text = f"the name is taken here by '{taken.username}', who is not this entry"
        return Finding("user", text, "log in with that user's own password, or rename")
    return Finding("user", f"'{name}' would be made at the first login")
