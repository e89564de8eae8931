"""Links by which a new user sets the password of the account that an administrator
prepared: its name and its groups are fixed when the link is made.

A link works once, until it expires, and only while its issuer is an active
administrator. Nobody becomes an administrator by a link. Like a token, its text is
shown once and kept as a peppered hash.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from catalog.access import audit
from catalog.access.tokens import digest_of, is_proven_by
from catalog.access.users import create_user, groups_named, require_new_name
from catalog.models import Invitation
from catalog.names import check_user_name
from core.errors import InvalidRequest, NotFound

PREFIX = "sli_"
DAYS, LONGEST_DAYS = 7, 30
MOST = 1_000

_SHAPE = re.compile(r"sli_([a-f0-9]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """An invitation at the only moment that its text is known."""

    row: Invitation
    text: str

    @property
    def path(self) -> str:
        return f"/invited/{self.text}"


def invite(
    name: str, *, groups: Iterable[str] = (), days: int = DAYS, by: User
) -> NewInvitation:
    """A link for a new user of that name; a former link for it ends.

    InvalidRequest for a name that is taken or is invited at the same time, and for a
    number of days out of range.
    """
    check_user_name(name)
    if not 1 <= days <= LONGEST_DAYS:
        raise InvalidRequest(
            "expires_in_days is %(days)s",
            most=LONGEST_DAYS,
            days=days,
            hint="1 to %(most)s days",
        )
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    row = Invitation(
        name=name,
        key_id=key_id,
        digest=digest_of(secret),
        issued_by=by,
        expires_at=datetime.now(UTC) + timedelta(days=days),
    )
    try:
        _save(row, groups)
    except IntegrityError:
        raise InvalidRequest(
            "'%(name)s' was invited at the same time",
            name=name,
            code="name_taken",
            hint="see the open invitations; another try ends that one",
        ) from None
    return NewInvitation(row, f"{PREFIX}{key_id}_{secret}")


def _save(row: Invitation, groups: Iterable[str]) -> None:
    with transaction.atomic():
        require_new_name(row.name)
        _make_room(row.name)
        row.save(force_insert=True)
        row.groups.set(groups_named(groups))
        named = sorted(group.name for group in row.groups.all())
        by = row.issued_by.username
        audit.record("invitation.create", on=row.name, actor=by, groups=named)


def _make_room(name: str) -> None:
    """Without those that have expired, and the former one of this name."""
    Invitation.objects.filter(expires_at__lte=datetime.now(UTC)).delete()
    Invitation.objects.filter(name__iexact=name).delete()
    if Invitation.objects.count() >= MOST:
        raise InvalidRequest(
            "%(most)s invitations are open, which is the most",
            most=MOST,
            code="too_many",
            hint="withdraw some first",
        )


def open_invitations() -> QuerySet[Invitation]:
    """Those whose link still works."""
    return Invitation.objects.filter(
        expires_at__gt=datetime.now(UTC),
        issued_by__is_active=True,
        issued_by__is_superuser=True,
    ).select_related("issued_by")


def invitation_of(text: str) -> Invitation:
    """The one whose link has this text. NotFound, always in the same words, for a link
    that is malformed, unknown, used, withdrawn, expired, or of a former administrator.
    """
    shape = _SHAPE.fullmatch(text)
    row = open_invitations().filter(key_id=shape[1]).first() if shape else None
    is_right = is_proven_by(shape[2] if shape else "", row.digest if row else "0" * 64)
    if row is None or not is_right:
        raise NotFound(
            "this invitation is not valid",
            code="invitation_not_found",
            hint="it works once and for some days; ask an administrator for a new one",
        )
    return row


def accept(text: str, password: str) -> User:
    """The new user; the link is used up. InvalidRequest for a weak password, or when
    somebody got the name by now: then the link stays."""
    with transaction.atomic():
        pk = invitation_of(text).pk
        # of two at the same time the second finds none
        Invitation.objects.select_for_update().filter(pk=pk).first()
        row = invitation_of(text)
        names = list(row.groups.values_list("name", flat=True))
        issuer = row.issued_by.username
        user = create_user(row.name, password, groups=names, by=issuer)
        audit.record("invitation.accept", on=row.name, actor=row.name, issuer=issuer)
        row.delete()
    return user


def withdraw(invitation_id: int, *, by: str) -> None:
    """End a link that nobody has used."""
    with transaction.atomic():
        row = Invitation.objects.filter(pk=invitation_id).first()
        if row is None:
            raise NotFound(
                "there is no invitation %(number)s",
                number=invitation_id,
                code="invitation_not_found",
            )
        audit.record("invitation.delete", on=row.name, actor=by)
        row.delete()
