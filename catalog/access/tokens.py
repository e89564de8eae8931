"""Bearer tokens `slt_<key id>_<secret>`: shown once, kept as a peppered hash.

The pepper comes from SLUICE_SECRET_KEY, so a stolen database holds nothing to
guess against; changing that key ends all tokens (fallback keys keep them).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import OuterRef
from django.utils.encoding import force_bytes

from catalog.access import audit
from catalog.compiled import CompiledQuery
from catalog.models import ApiToken
from core.errors import InvalidRequest, NotFound

PREFIX = "slt_"
LONGEST_LIFE_DAYS = 3_650
MOST_OF_ONE = 200
USED_EVERY = timedelta(minutes=1)

_SHAPE = re.compile(r"slt_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at its only moment in clear text."""

    row: ApiToken
    text: str


def create_token(
    user: User, *, name: str, expires_in_days: int | None, by: str
) -> NewToken:
    """A new token of `user`; None = it does not expire."""
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise InvalidRequest(
            "a token needs a name of 1 to 100 letters",
            hint="printable ones, and no line breaks",
        )
    if expires_in_days is not None and not 1 <= expires_in_days <= LONGEST_LIFE_DAYS:
        raise InvalidRequest(
            "expires_in_days is %(days)s",
            most=LONGEST_LIFE_DAYS,
            days=expires_in_days,
            hint="1 to %(most)s, or null for a token that does not expire",
        )
    most = settings.SLUICE_TOKEN_DAYS
    if most and (expires_in_days is None or expires_in_days > most):
        raise InvalidRequest(
            "tokens live %(most)s days at most here",
            most=most,
            code="token_too_long",
            hint="expires_in_days: 1 to %(most)s (SLUICE_TOKEN_DAYS)",
        )
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires_at = (
        None
        if expires_in_days is None
        else datetime.now(UTC) + timedelta(days=expires_in_days)
    )
    with transaction.atomic():
        _require_room(user)
        row = ApiToken.objects.create(
            user=user,
            name=name,
            key_id=key_id,
            digest=digest_of(secret),
            expires_at=expires_at,
        )
        audit.record("token.create", on=f"{user.username}/{name}", actor=by, id=row.pk)
    text = f"{PREFIX}{key_id}_{secret}"
    return NewToken(row=row, text=text)


def _require_room(user: User) -> None:
    if ApiToken.objects.filter(user=user).count() >= MOST_OF_ONE:
        raise InvalidRequest(
            "%(user)s has %(most)s tokens, which is the most",
            user=user.username,
            most=MOST_OF_ONE,
            code="too_many",
            hint="delete some first, those that have expired too",
        )


def delete_token(token_id: int, *, by: User) -> None:
    """End a token at once: one's own, or anybody's for administrators."""
    rows = ApiToken.objects.select_related("user").filter(pk=token_id)
    if not by.is_superuser:
        rows = rows.filter(user=by)
    with transaction.atomic():
        row = rows.first()
        if row is None:
            raise NotFound(
                "there is no token %(number)s",
                number=token_id,
                code="token_not_found",
            )
        audit.record(
            "token.delete", on=f"{row.user.username}/{row.name}", actor=by.username
        )
        row.delete()


def end_tokens(user: User) -> int:
    """End all tokens of a user at once; how many there were."""
    return ApiToken.objects.filter(user=user).delete()[0]


def find_token(text: str) -> ApiToken | None:
    """The living token with this text, user and `group_names` read along.

    Constant time in the secret; None for malformed, unknown, wrong, expired, or
    of a user who is not active.
    """
    key_id, secret = parts_of(text)
    row = _lookup().first(key_id) if key_id else None
    is_right = is_proven_by(secret, row.digest if row else "0" * 64)
    now = datetime.now(UTC)
    if row is None or not is_right or not row.user.is_active:
        return None
    if row.ends_at is not None and row.ends_at <= now:
        return None
    if row.last_used_at is None or now - row.last_used_at > USED_EVERY:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def parts_of(text: str) -> tuple[str, str]:
    """(key id, secret) of a token; ("", "") for what is none."""
    shape = _SHAPE.fullmatch(text)
    return (shape[1], shape[2]) if shape else ("", "")


def digest_of(secret: str) -> str:
    """What is stored of it."""
    return _digests(secret)[0]


def is_proven_by(secret: str, digest: str) -> bool:
    """Whether it is the secret behind that stored digest; takes the same time."""
    return any(hmac.compare_digest(one, digest) for one in _digests(secret))


@cache
def _lookup() -> CompiledQuery[ApiToken]:
    """By key id; every request by token begins with it."""
    names = Group.objects.filter(user=OuterRef("user_id")).values("name")
    rows = (
        ApiToken.objects.select_related("user")
        .filter(key_id="\x01")
        .only(
            *("digest", "created_at", "expires_at", "last_used_at"),
            *("user__username", "user__is_superuser", "user__is_active"),
        )
    )
    return CompiledQuery(rows.annotate(group_names=ArraySubquery(names)), ["\x01"])


def _digests(secret: str) -> list[str]:
    """The hash under the current pepper first, then under former ones."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [
        hmac.new(
            hashlib.sha256(b"sluice token pepper" + force_bytes(key)).digest(),
            secret.encode(),
            hashlib.sha256,
        ).hexdigest()
        for key in keys
    ]
