"""Stored secrets: encrypted with own keys, write-only, rotatable.

A stored value is `<key id>:<Fernet token>`. Keys come from SLUICE_SECRETS_KEYS,
newest first; nothing here is derived from Django's SECRET_KEY.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import transaction
from django.db.models import Model, QuerySet

from catalog.access import audit
from catalog.extensions import registered
from catalog.models import Datasource
from core.errors import TerminalError
from core.redaction import remember_secret


@dataclass(frozen=True, slots=True)
class RotationReport:
    """oldest_key: id of the oldest key still in use after the rotation, "" = none."""

    checked: int
    rewritten: int
    current_key: str
    oldest_key: str
    unused_keys: tuple[str, ...]


def key_id(key: str) -> str:
    """A short public name of a key."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def encrypt(plain: str) -> str:
    """The value of a secret to store; "" stays "". Logs show the secret no more."""
    if plain:
        remember_secret(plain)
    return seal(plain)


def seal(plain: str) -> str:
    """The same for a text that is stored encrypted and is no secret as a whole."""
    if not plain:
        return ""
    newest = settings.SLUICE_SECRETS_KEYS[0]
    return f"{key_id(newest)}:{Fernet(newest).encrypt(plain.encode()).decode()}"


def decrypt(stored: str) -> str:
    """The plain secret. TerminalError when its key is gone or the value was changed."""
    plain = unsealed(stored)
    if plain:
        remember_secret(plain)
    return plain


def unsealed(stored: str) -> str:
    """What `seal` was given; TerminalError as for `decrypt`."""
    if not stored:
        return ""
    name, _, token = stored.partition(":")
    for key in settings.SLUICE_SECRETS_KEYS:
        if key_id(key) != name:
            continue
        try:
            return Fernet(key).decrypt(token.encode()).decode()
        except InvalidToken:
            raise TerminalError(
                "a secret stored under key %(name)s cannot be read: it was changed",
                name=name,
                code="secret_damaged",
                hint="enter the secret again",
            ) from None
    raise TerminalError(
        "a secret was stored under key %(name)s, which is not in SLUICE_SECRETS_KEYS",
        name=name,
        code="secret_key_missing",
        hint="add that key at the end of the list, or enter the secret again",
    )


def password_of(datasource: Datasource) -> str:
    """The datasource's password in clear text, for a connection only."""
    return decrypt(datasource.secret)


def rotate_secrets() -> RotationReport:
    """Re-encrypt every stored secret with the newest key; safe to run again."""
    keys = list(settings.SLUICE_SECRETS_KEYS)
    current = key_id(keys[0])
    models: list[type[Model]] = [Datasource, *registered.secrets]
    counts = [_rotate(model, current) for model in models]
    checked, rewritten = (sum(column) for column in zip(*counts, strict=True))
    used = {
        stored.partition(":")[0]
        for model in models
        for stored in _stored(model).values_list("secret", flat=True)
    }
    known = [key_id(key) for key in keys]
    in_use = [name for name in known if name in used]
    audit.record("secrets.rotate", checked=checked, rewritten=rewritten)
    return RotationReport(
        checked=checked,
        rewritten=rewritten,
        current_key=current,
        oldest_key=in_use[-1] if in_use else "",
        unused_keys=tuple(name for name in known[1:] if name not in used),
    )


def _stored(model: type[Model]) -> QuerySet[Any]:
    return model._default_manager.exclude(secret="")


def _rotate(model: type[Model], current: str) -> tuple[int, int]:
    """How many rows of one model were looked at, and how many rewritten."""
    checked = rewritten = 0
    for pk in _stored(model).values_list("pk", flat=True):
        with transaction.atomic():
            row = _stored(model).select_for_update().filter(pk=pk).first()
            if row is None:
                continue
            checked += 1
            if row.secret.startswith(f"{current}:"):
                continue
            fresh = encrypt(decrypt(row.secret))
            _stored(model).filter(pk=pk).update(secret=fresh)
            rewritten += 1
    return checked, rewritten
