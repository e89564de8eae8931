"""The directory without the library that asks it: its settings as one value, what is
wrong with them, and what it may answer. Pure.

Filters and DNs are templates; what comes from outside goes in escaped, always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from catalog.access.group_rules import GroupRules
from core.errors import TerminalError, TransientError

PROVIDER = "ldap"
_PLACE = re.compile(r"\{(dn|user)\}")


@dataclass(frozen=True, slots=True)
class LdapServers:
    """step_seconds  longest wait for one answer; total_seconds for a whole login"""

    urls: tuple[str, ...]
    start_tls: bool = False
    allows_plaintext: bool = False
    ca_file: str = ""
    step_seconds: int = 3
    total_seconds: int = 8


@dataclass(frozen=True, slots=True)
class LdapUsers:
    """bind_dn    account that searches; empty = a user binds by `direct_dn` himself
    direct_dn  template, e.g. uid={user},ou=people,dc=example,dc=org
    filter     template; {user} is the name that was typed
    """

    bind_dn: str = ""
    bind_password: str = field(default="", repr=False)
    direct_dn: str = ""
    base: str = ""
    filter: str = "(uid={user})"
    name_attribute: str = "uid"
    id_attribute: str = "entryUUID"


@dataclass(frozen=True, slots=True)
class LdapGroups:
    """filter  template; {dn} is the entry's, {user} its name"""

    base: str = ""
    filter: str = "(|(member={dn})(uniqueMember={dn})(memberUid={user}))"
    attribute: str = "cn"
    rules: GroupRules = field(default_factory=GroupRules)


@dataclass(frozen=True, slots=True)
class LdapSpec:
    """One directory."""

    servers: LdapServers
    users: LdapUsers
    groups: LdapGroups = field(default_factory=LdapGroups)
    recheck_seconds: int = 300

    @property
    def can_search(self) -> bool:
        """Whether entries can be looked up without a user's password."""
        return bool(self.users.bind_dn)

    def problems(self) -> Iterator[tuple[str, str]]:
        """(what is wrong, what to do), for the checks at start."""
        users = self.users
        for url in self.servers.urls:
            yield from self._problems_of(url)
        if bool(users.bind_dn) == bool(users.direct_dn):
            yield (
                "LDAP needs one way to find a user's entry",
                "set SLUICE_LDAP_BIND_DN and SLUICE_LDAP_USER_BASE, or only "
                "SLUICE_LDAP_DIRECT_DN",
            )
        if users.bind_dn and not (users.bind_password and users.base):
            yield (
                "SLUICE_LDAP_BIND_DN lacks its password or a place to search",
                "set SLUICE_LDAP_BIND_PASSWORD_FILE and SLUICE_LDAP_USER_BASE",
            )
        if "{user}" not in (users.direct_dn or users.filter):
            yield (
                "the LDAP template for users names no user",
                "write {user} into SLUICE_LDAP_USER_FILTER or SLUICE_LDAP_DIRECT_DN",
            )
        if (
            self.groups.rules.admins or self.groups.rules.allowed
        ) and not self.groups.base:
            yield (
                "LDAP groups decide who may log in, but nothing looks them up",
                "set SLUICE_LDAP_GROUP_BASE",
            )

    def _problems_of(self, url: str) -> Iterator[tuple[str, str]]:
        parts = urlsplit(url)
        if parts.scheme not in {"ldap", "ldaps"} or not parts.hostname:
            yield f"'{url}' is not the address of a directory", "write ldaps://host:636"
        elif parts.scheme == "ldaps" and self.servers.start_tls:
            yield (
                f"'{url}' cannot start TLS: it already has it",
                "write ldap:// with SLUICE_LDAP_START_TLS, or ldaps:// without",
            )
        elif parts.scheme == "ldap" and not (
            self.servers.start_tls or self.servers.allows_plaintext
        ):
            yield (
                f"'{url}' would send passwords in plain text",
                "use ldaps://, or SLUICE_LDAP_START_TLS=true; "
                "SLUICE_LDAP_ALLOW_PLAINTEXT=true if that network is private",
            )


def filled(template: str, **values: str) -> str:
    """The template with its {names} replaced, in one pass: what goes in is not read
    again. The caller escaped the values."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), template)


class DirectoryAway(TransientError):
    """The directory gave no definite answer; nothing was decided."""

    default_code: ClassVar[str] = "directory_unavailable"


class DirectoryUnreachable(DirectoryAway):
    """No server answered at all, or none in time."""


class DirectoryMisconfigured(TerminalError):
    """The directory answered, but not to what the settings ask."""

    default_code: ClassVar[str] = "directory_misconfigured"


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A user's entry. `subject` is its immutable id, `name` as it is there.

    password_mark  when the password was set, in the server's form; "" = it does not say
    """

    dn: str
    subject: str
    name: str
    is_disabled: bool = False
    password_mark: str = ""
