"""Asks an LDAP directory: who is that, is this the password, which groups.

Answers are definite or an error: "not there" is said only when the directory said it.
TLS is verified by the standard library; referrals and aliases are not followed. Knows
no user of ours.
"""

from __future__ import annotations

import contextlib
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from ldap3 import BASE, DEREF_NEVER, NONE, SIMPLE, SUBTREE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPExceptionError
from ldap3.utils.conv import escape_bytes, escape_filter_chars
from ldap3.utils.dn import escape_rdn

from catalog.access.ldap_spec import (
    DirectoryAway,
    DirectoryEntry,
    DirectoryMisconfigured,
    DirectoryUnreachable,
    LdapSpec,
    filled,
)
from core.redaction import redact
from core.sentences import Sentence

SUCCESS, SIZE_LIMIT = 0, 4
# Wrong password; locked or expired, in the words of different servers.
REFUSED = frozenset({19, 48, 49, 50, 53})
MOST_GROUPS = 1_000
_DISABLING = ("userAccountControl", "nsAccountLock", "pwdAccountLockedTime")
_AD_DISABLED = 2
# OpenLDAP with ppolicy, Active Directory, FreeIPA, 389 Directory Server
_PASSWORD_SET = ("pwdChangedTime", "pwdLastSet", "krbLastPwdChange", "pwdUpdateTime")


class VerifiedTls(Tls):
    """ldap3 compares names itself, in an old way; here Python's TLS does."""

    def __init__(self, ca_file: str) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = ssl.create_default_context(cafile=ca_file or None)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:  # noqa: FBT001, FBT002  ldap3's signature
        connection.socket = self._context.wrap_socket(
            connection.socket, server_hostname=connection.server.host
        )


class Directory:
    """One look at the directory, to be used in a `with` block. Not for two threads."""

    def __init__(
        self, spec: LdapSpec, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._until = clock() + spec.servers.total_seconds
        self._stack = contextlib.ExitStack()
        self._searching: Connection | None = None

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def entry_named(self, name: str) -> DirectoryEntry | None:
        """The one entry of that user name. Needs an account that searches."""
        wanted = filled(self._spec.users.filter, user=escape_filter_chars(name))
        return self._one(self._spec.users.base, wanted, SUBTREE)

    def entry_with_id(self, subject: str, *, known_as: str) -> DirectoryEntry | None:
        """The entry of that id, while it still is a user's who may log in.

        One search finds who still has the name `known_as`; others may be renamed.
        """
        by_id = f"({self._spec.users.id_attribute}={_escaped_id(self._spec, subject)})"
        entry = self._one_with(by_id, known_as)
        if entry is not None:
            return entry
        renamed = self._one(self._spec.users.base, by_id, SUBTREE)
        if renamed is None or renamed.name.lower() == known_as.lower():
            return None
        return self._one_with(by_id, renamed.name)

    def _one_with(self, by_id: str, name: str) -> DirectoryEntry | None:
        user = escape_filter_chars(name)
        wanted = f"(&{by_id}{filled(self._spec.users.filter, user=user)})"
        return self._one(self._spec.users.base, wanted, SUBTREE)

    def has_password(self, entry: DirectoryEntry, password: str) -> bool:
        return self._bound(entry.dn, password) is not None

    def entry_by_password(self, name: str, password: str) -> DirectoryEntry | None:
        """Without a searching account: the user binds, and reads their own entry."""
        dn = filled(self._spec.users.direct_dn, user=escape_rdn(name))
        own = self._bound(dn, password)
        if own is None:
            return None
        self._searching = own
        return self._one(dn, "(objectClass=*)", BASE)

    def groups_of(self, entry: DirectoryEntry) -> frozenset[str]:
        """Names of the groups the entry is in."""
        spec = self._spec
        if not spec.groups.base:
            return frozenset()
        dn, user = escape_filter_chars(entry.dn), escape_filter_chars(entry.name)
        wanted = filled(spec.groups.filter, dn=dn, user=user)
        found = self._search(
            spec.groups.base, wanted, SUBTREE, (spec.groups.attribute,), MOST_GROUPS
        )
        names = (_text(item, spec.groups.attribute) for item in found)
        return frozenset(name for name in names if name)

    def connect(self) -> None:
        """Connect and bind as the searching account: the first steps of any look."""
        self._searcher()

    def _searcher(self) -> Connection:
        if self._searching is None:
            found = self._bound(
                self._spec.users.bind_dn, self._spec.users.bind_password
            )
            if found is None:
                raise DirectoryMisconfigured(
                    "the directory refuses the account that searches for users",
                    hint="correct SLUICE_LDAP_BIND_DN and its password",
                )
            self._searching = found
        return self._searching

    def _one(self, base: str, wanted: str, scope: Any) -> DirectoryEntry | None:
        spec = self._spec
        known_by = (spec.users.name_attribute, spec.users.id_attribute)
        attributes = (*known_by, *_DISABLING, *_PASSWORD_SET)
        found = self._search(base, wanted, scope, attributes, 2)
        if not found:
            return None
        if len(found) > 1:
            raise DirectoryMisconfigured(
                "the directory knows several users of that name",
                hint="make SLUICE_LDAP_USER_FILTER and its base more exact",
            )
        return _entry(spec, found[0])

    def _search(
        self, base: str, wanted: str, scope: Any, attributes: tuple[str, ...], most: int
    ) -> list[dict[str, Any]]:
        connection = self._searcher()
        with self._in_time():
            connection.search(
                base,
                wanted,
                search_scope=scope,
                dereference_aliases=DEREF_NEVER,
                attributes=list(attributes),
                size_limit=most,
                time_limit=self._spec.servers.step_seconds,
            )
        code = connection.result["result"]
        entries = [
            item
            for item in connection.response or ()
            if item["type"] == "searchResEntry"
        ]
        if code == SIZE_LIMIT and most == 2:
            return entries
        if code != SUCCESS:
            raise DirectoryMisconfigured(
                "the directory cannot search below '%(base)s': %(why)s",
                base=base,
                why=connection.result["description"],
                hint="check the search bases, filters and the account's rights",
            )
        return entries

    def _bound(self, dn: str, password: str) -> Connection | None:
        """A connection bound as `dn`; None when the directory refuses the password.

        An empty password would be an anonymous bind, which proves nothing. The bytes go
        as they are: ldap3 would make an empty one of a soft hyphen.
        """
        secret = password.encode("utf-8", "replace")
        if not dn or not secret:
            return None
        connection = self._opened(dn, secret)
        with self._in_time():
            connection.bind()
        code = connection.result["result"]
        if code == SUCCESS:
            return connection
        if code in REFUSED:
            return None
        raise DirectoryAway(
            "the directory cannot check a password: %(why)s",
            why=connection.result["description"],
            hint="try again; `manage.py ldap_check` tells more",
        )

    def _opened(self, dn: str, secret: bytes) -> Connection:
        """To the first server that answers."""
        failure = ""
        for url in self._spec.servers.urls:
            try:
                with self._in_time():
                    return self._open(url, dn, secret)
            except DirectoryUnreachable as error:
                failure = error.message
        raise DirectoryUnreachable(
            failure or "no directory server answers",
            hint="try again in a moment; local accounts keep working",
        )

    def _open(self, url: str, dn: str, secret: bytes) -> Connection:
        spec, parts = self._spec, urlsplit(url)
        is_ldaps = parts.scheme == "ldaps"
        has_tls = is_ldaps or spec.servers.start_tls
        server = Server(
            parts.hostname or "",
            port=parts.port or (636 if is_ldaps else 389),
            use_ssl=is_ldaps,
            tls=VerifiedTls(spec.servers.ca_file) if has_tls else None,
            get_info=NONE,
            connect_timeout=spec.servers.step_seconds,
        )
        connection = Connection(
            server,
            user=dn,
            password=secret,  # type: ignore[arg-type]
            authentication=SIMPLE,
            auto_referrals=False,
            receive_timeout=spec.servers.step_seconds,
            check_names=False,
            raise_exceptions=False,
            read_only=True,
        )
        self._stack.callback(_close, connection)
        connection.open(read_server_info=False)
        if spec.servers.start_tls:
            connection.start_tls(read_server_info=False)
        return connection

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        if self._clock() > self._until:
            raise DirectoryUnreachable("the directory answers too slowly")
        try:
            yield
        except (LDAPExceptionError, OSError) as error:
            raise DirectoryUnreachable(
                Sentence(
                    "the directory does not answer: %(error)s",
                    error=redact(str(error))[:300],
                )
            ) from error


def _close(connection: Connection) -> None:
    opened = connection.socket  # ldap3 forgets it when opening failed
    with contextlib.suppress(LDAPExceptionError, OSError):
        connection.unbind()
    if opened is not None:
        opened.close()


def _entry(spec: LdapSpec, item: dict[str, Any]) -> DirectoryEntry:
    subject, name = _subject(spec, item), _text(item, spec.users.name_attribute)
    if not subject or not name:
        lacking = spec.users.name_attribute if subject else spec.users.id_attribute
        raise DirectoryMisconfigured(
            "the entry %(entry)s shows no %(attribute)s",
            entry=item["dn"],
            attribute=lacking,
            hint="check SLUICE_LDAP_NAME_ATTRIBUTE, SLUICE_LDAP_ID_ATTRIBUTE and "
            "what the account may read",
        )
    return DirectoryEntry(
        dn=str(item["dn"]),
        subject=subject,
        name=name,
        is_disabled=_is_disabled(item),
        password_mark=_password_mark(item),
    )


def _password_mark(item: dict[str, Any]) -> str:
    marks = (_text(item, attribute) for attribute in _PASSWORD_SET)
    return next((mark for mark in marks if mark), "")


def _is_disabled(item: dict[str, Any]) -> bool:
    control = _text(item, "userAccountControl")
    if control.isdigit() and int(control) & _AD_DISABLED:
        return True
    # a lock of 000001010000Z has no end; others are the directory's to time
    is_locked = _text(item, "pwdAccountLockedTime").startswith("000001010000")
    return is_locked or _text(item, "nsAccountLock").lower() == "true"


def _subject(spec: LdapSpec, item: dict[str, Any]) -> str:
    values = item["raw_attributes"].get(spec.users.id_attribute) or [b""]
    if spec.users.id_attribute.lower() == "objectguid" and len(values[0]) == 16:
        return str(uuid.UUID(bytes_le=values[0]))
    return str(values[0].decode("utf-8", "replace"))


def _escaped_id(spec: LdapSpec, subject: str) -> str:
    if spec.users.id_attribute.lower() == "objectguid":
        return str(escape_bytes(uuid.UUID(subject).bytes_le))
    return str(escape_filter_chars(subject))


def _text(item: dict[str, Any], attribute: str) -> str:
    values = item["raw_attributes"].get(attribute) or [b""]
    return str(values[0].decode("utf-8", "replace"))
