"""Log in with the directory's password, and look again whether people are still there.

The directory proves; `external_users` decides what that means here. While no server
answers, a circuit breaker spares logins the wait: local users notice nothing.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from catalog import dispatch
from catalog.access.external_users import ExternalPerson, admit, suspend
from catalog.access.ldap_spec import (
    PROVIDER,
    DirectoryAway,
    DirectoryEntry,
    DirectoryMisconfigured,
    DirectoryUnreachable,
    LdapSpec,
)
from catalog.models import ExternalIdentity
from catalog.names import is_principal_name
from core.errors import AccessDenied
from core.retries import CircuitBreaker

if TYPE_CHECKING:
    from catalog.access.ldap_directory import Directory

log = logging.getLogger(__name__)

BREAKER_SECONDS = 5.0
RECHECK_PAGE = 200
RING_SECONDS = 5.0
# Each holds a thread that logins of local users need, too.
ASKED_AT_ONCE = 2
QUEUE_SECONDS = 2.0
_breaker = CircuitBreaker(BREAKER_SECONDS)  # one per process
_places = threading.BoundedSemaphore(ASKED_AT_ONCE)
_rung_at = 0.0


def is_enabled() -> bool:
    return settings.SLUICE_LDAP is not None


def log_in(username: str, password: str) -> User | None:
    """The user that the directory proves; None when it does not.

    AccessDenied when proven but not let in; DirectoryAway, DirectoryMisconfigured.
    """
    spec = settings.SLUICE_LDAP
    # An empty password would bind anonymously. Odd names never reach the directory.
    if spec is None or not password or not is_principal_name(username):
        return None
    person = _proven_person(spec, username, password)
    return None if person is None else admit(person)


def person_of(
    spec: LdapSpec, directory: Directory, entry: DirectoryEntry
) -> ExternalPerson:
    """The entry as `external_users` wants it."""
    membership = spec.groups.rules.read(directory.groups_of(entry))
    name = entry.name.lower()
    return ExternalPerson(
        PROVIDER, entry.subject, name, membership, password_mark=entry.password_mark
    )


def ring_due_recheck() -> None:
    """For the tick: ring for the re-check; without a broker a few are done here."""
    global _rung_at  # one pace per process
    spec = settings.SLUICE_LDAP
    if spec is None or not spec.can_search:
        return
    now = time.monotonic()
    if now - _rung_at < RING_SECONDS or not _due(spec).exists():
        return
    _rung_at = now
    if not dispatch.ring_recheck():
        recheck_due(most=5)


def recheck_due(most: int = RECHECK_PAGE) -> int:
    """Ask again for the identities that were longest not asked for; how many.

    Who is gone or disabled there is suspended here; who is back is let in again.
    """
    spec = settings.SLUICE_LDAP
    if spec is None or not spec.can_search:
        return 0
    done = 0
    try:
        with _directory(spec) as directory:
            directory.connect()
            for identity in _due(spec)[:most]:
                _recheck(spec, directory, identity)
                done += 1
    except (DirectoryAway, DirectoryMisconfigured) as error:
        log.warning("re-checking directory users waits: %s", error)
    if done == most:
        dispatch.ring_recheck()
    return done


def _proven_person(
    spec: LdapSpec, username: str, password: str
) -> ExternalPerson | None:
    if not _breaker.allows(time.monotonic()):
        raise DirectoryUnreachable(
            "the directory did not answer a moment ago",
            hint="try again in a moment; local accounts keep working",
        )
    try:
        with _place(), _directory(spec) as directory:
            entry = _proven_entry(spec, directory, username, password)
            if entry is None:
                return None
            if entry.is_disabled:
                suspend(PROVIDER, entry.subject, reason="disabled_there")
                return None
            return person_of(spec, directory, entry)
    except DirectoryUnreachable as error:
        log.warning("a login waits for the directory: %s", error)
        _breaker.fail(time.monotonic())
        raise


@contextlib.contextmanager
def _place() -> Iterator[None]:
    if not _places.acquire(timeout=QUEUE_SECONDS):
        raise DirectoryAway(
            "other logins wait for the directory",
            hint="try again in a moment; local accounts keep working",
        )
    try:
        yield
    finally:
        _places.release()


def _proven_entry(
    spec: LdapSpec, directory: Directory, username: str, password: str
) -> DirectoryEntry | None:
    if not spec.can_search:
        return directory.entry_by_password(username, password)
    entry = directory.entry_named(username)
    if entry is None or not directory.has_password(entry, password):
        return None
    return entry


def _recheck(spec: LdapSpec, directory: Directory, identity: ExternalIdentity) -> None:
    try:
        entry = directory.entry_with_id(
            identity.subject, known_as=identity.user.username
        )
        if entry is None or entry.is_disabled:
            reason = "not_found_there" if entry is None else "disabled_there"
            suspend(PROVIDER, identity.subject, reason=reason)
            return
        admit(person_of(spec, directory, entry))
    except AccessDenied as error:  # suspended by `admit`, or switched off since
        log.info("%s: %s", identity.user, error)
        _put_behind(identity)
    except DirectoryMisconfigured as error:
        log.warning("%s could not be checked: %s", identity.user, error)
        _put_behind(identity)


def _put_behind(identity: ExternalIdentity) -> None:
    """Let others be checked first: those that fail would stay the oldest for ever."""
    now = datetime.now(UTC)
    ExternalIdentity.objects.filter(pk=identity.pk).update(failed_at=now)


def _directory(spec: LdapSpec) -> Directory:
    # ldap3 costs 14 MB and half a second in each process: only where it is used
    from catalog.access.ldap_directory import Directory

    return Directory(spec)


def _due(spec: LdapSpec) -> QuerySet[ExternalIdentity]:
    """Not those whom an administrator switched off: they stay off anyway."""
    before = datetime.now(UTC) - timedelta(seconds=spec.recheck_seconds)
    return (
        ExternalIdentity.objects.filter(provider=PROVIDER, checked_at__lt=before)
        .filter(Q(user__is_active=True) | Q(is_suspended=True))
        .filter(Q(failed_at=None) | Q(failed_at__lt=before))
        .select_related("user")
        .order_by("checked_at")
    )
