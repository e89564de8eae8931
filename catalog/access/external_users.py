"""Lets people in whom a directory or an identity provider has proven.

The user is made at the first login and found again by the entry's immutable id.
Groups that the provider owns follow it; grants, local groups and everything that an
administrator decided here stay. Knows no protocol.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from catalog.access import audit
from catalog.access.group_rules import Membership
from catalog.access.ldap_spec import PROVIDER
from catalog.access.policy_version import bump_version
from catalog.access.users import end_invitations, locked_user, was_deleted
from catalog.models import DirectoryGroup, ExternalIdentity, FormerUser
from catalog.names import is_principal_name
from core.errors import AccessDenied, InvalidRequest
from core.sentences import Sentence

LONGEST_SUBJECT = 300
LOOK_SECONDS = 60.0
PAGE = 200
_looked_at = float("-inf")
LONGEST_MARK = 64


@dataclass(frozen=True, slots=True)
class ExternalPerson:
    """What a provider states about a user now. `name` is the name to use here.

    password_mark  grows with each new password there; "" = the provider does not say
    """

    provider: str
    subject: str
    name: str
    membership: Membership = field(default_factory=Membership)
    password_mark: str = ""


def admit(person: ExternalPerson) -> User:
    """The active user of that person, brought up to date.

    AccessDenied, with a message for that person, when the login is refused.
    """
    if not person.subject or len(person.subject) > LONGEST_SUBJECT:
        raise _refused("the directory gives no usable id for you", "no_subject")
    if not person.membership.is_allowed:
        suspend(person.provider, person.subject, reason="not_in_an_allowed_group")
        raise _refused("your account is in no group that may log in", "not_allowed")
    try:
        with transaction.atomic():
            return _admit(person)
    except IntegrityError:  # two first logins at once: now the row is there
        with transaction.atomic():
            return _admit(person)


def suspend(provider: str, subject: str, *, reason: str) -> bool:
    """Take the access of that person away; whether it was there until now."""
    with transaction.atomic():
        identity = _locked(provider, subject)
        if identity is None:
            return False
        identity.checked_at = datetime.now(UTC)
        user = identity.user
        was_active = user.is_active
        if was_active:
            identity.is_suspended = True
            user.is_active = False
            user.save(update_fields=["is_active"])
            end_invitations(user)
            bump_version()
            audit.record(
                "user.suspend", on=user.username, actor=provider, reason=reason
            )
        identity.save()
    return was_active


def hand_over(name: str, *, provider: str, subject: str) -> None:
    """A local user becomes that person's, with all they have but the password."""
    with transaction.atomic():
        user = locked_user(name)
        same = ExternalIdentity.objects.filter(provider=provider, subject=subject)
        if (same | ExternalIdentity.objects.filter(user=user)).exists():
            raise InvalidRequest(
                "'%(name)s' or that entry already belongs to a user",
                name=name,
                code="name_taken",
            )
        ExternalIdentity.objects.create(
            user=user, provider=provider, subject=subject, checked_at=datetime.now(UTC)
        )
        user.set_unusable_password()
        user.save()
        audit.record("user.hand_over", on=name, provider=provider)


def _admit(person: ExternalPerson) -> User:
    identity = _locked(person.provider, person.subject)
    is_new = identity is None
    if identity is None:
        identity = _create(person)
    user = identity.user
    if not user.is_active and not identity.is_suspended:
        raise _refused("your account was switched off here", "switched_off")
    changes = _bring_up_to_date(user, identity, person)
    identity.checked_at = datetime.now(UTC)
    identity.save()
    if is_new or changes:
        bump_version()
        action = "user.create" if is_new else "user.update"
        actor = person.provider
        audit.record(action, on=user.username, actor=actor, **changes)
    return user


def _locked(provider: str, subject: str) -> ExternalIdentity | None:
    return (
        ExternalIdentity.objects.select_for_update()
        .select_related("user")
        .filter(provider=provider, subject=subject)
        .first()
    )


def _create(person: ExternalPerson) -> ExternalIdentity:
    if not is_principal_name(person.name):
        why = Sentence("'%(name)s' cannot be a user name", name=person.name[:100])
        raise _refused(why, "invalid_name")
    former = FormerUser.objects.filter(provider=person.provider, subject=person.subject)
    if was_deleted(person.name) or former.exists():
        why = Sentence("the user '%(name)s' was deleted here", name=person.name)
        raise _refused(why, "deleted")
    taken = User.objects.filter(username__iexact=person.name).first()
    if taken is not None:
        why = Sentence(
            "the name '%(name)s' belongs to another user", name=taken.username
        )
        raise _refused(why, "name_taken")
    user = User(username=person.name)
    user.set_unusable_password()
    user.save(force_insert=True)
    return ExternalIdentity.objects.create(
        user=user,
        provider=person.provider,
        subject=person.subject,
        checked_at=datetime.now(UTC),
    )


def _bring_up_to_date(
    user: User, identity: ExternalIdentity, person: ExternalPerson
) -> dict[str, Any]:
    """What changed, for the audit."""
    changes: dict[str, Any] = {}
    if identity.is_suspended:
        identity.is_suspended = False
        user.is_active = changes["is_active"] = True
    is_admin = person.membership.is_admin
    if is_admin is not None and user.is_superuser != is_admin:
        user.is_superuser = changes["is_admin"] = is_admin
    if _has_new_password(identity, person):
        # another unusable hash: sessions of the old password rest on the old one
        user.set_unusable_password()
        changes["reason"] = "password_changed_there"
    if changes:
        user.save()
        end_invitations(user)
    groups = _follow_groups(user, person)
    return {**changes, "groups": groups} if groups is not None else changes


def _has_new_password(identity: ExternalIdentity, person: ExternalPerson) -> bool:
    """Whether the password there is a later one than was last seen; remembers it.

    An earlier mark is a replica that lags, or Active Directory's 0 for a password that
    has to be changed: neither is a new password. Nor is the first mark ever seen.
    """
    seen, now = identity.password_mark, person.password_mark
    if len(now) > LONGEST_MARK or (len(now), now) <= (len(seen), seen):
        return False
    identity.password_mark = now
    return bool(seen)


def _follow_groups(user: User, person: ExternalPerson) -> list[str] | None:
    """Set the memberships that are the provider's; the new list when it changed.

    A local group of the same name is not taken over unless the mapping names it.
    """
    wanted = person.membership.groups
    for name in sorted(wanted):
        group, is_new = Group.objects.get_or_create(name=name)
        if is_new or person.membership.is_mapped:
            DirectoryGroup.objects.get_or_create(group=group)
    owned = Group.objects.filter(directory_group__isnull=False)
    held = user.groups.filter(directory_group__isnull=False)
    is_in = set(held.values_list("name", flat=True))
    should = set(owned.filter(name__in=wanted).values_list("name", flat=True))
    if is_in == should:
        return None
    user.groups.remove(*owned.filter(name__in=is_in - should))
    user.groups.add(*owned.filter(name__in=should - is_in))
    return sorted(should)


def _refused(why: str, reason: str) -> AccessDenied:
    return AccessDenied(
        why,
        code="login_refused",
        hint="ask an administrator of Sluice",
        facts={"reason": reason},
    )


def suspend_idle_now_and_then() -> None:
    """For the tick: look once a minute per process."""
    global _looked_at  # one pace per process
    if time.monotonic() - _looked_at >= LOOK_SECONDS:
        _looked_at = time.monotonic()
        suspend_idle()


def suspend_idle() -> int:
    """Suspend users who did not sign in for SLUICE_IDLE_DAYS; how many. 0 = never.

    An identity provider is asked only when a user signs in, and so is a directory
    without a searching account. A user who left there never signs in again: the
    tokens must not outlive the account. The next sign-in lifts it.
    """
    if settings.SLUICE_IDLE_DAYS <= 0:
        return 0
    before = datetime.now(UTC) - timedelta(days=settings.SLUICE_IDLE_DAYS)
    idle = ExternalIdentity.objects.filter(checked_at__lt=before, user__is_active=True)
    ldap = settings.SLUICE_LDAP
    if ldap is not None and ldap.can_search:  # the directory is asked about these
        idle = idle.exclude(provider=PROVIDER)
    found = list(idle.values_list("provider", "subject")[:PAGE])
    return sum(suspend(*one, reason="did_not_sign_in") for one in found)
