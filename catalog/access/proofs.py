"""Whether a caller's proof is still valid: the token lives, the password is the same.

For interfaces that keep a user logged in; they ask every few seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.models import User

from catalog.models import ApiToken


@dataclass(frozen=True, slots=True)
class Proof:
    """What a login rested on.

    token_id  the token; None = a password
    password  a sum of the stored hash; "" for a token. A directory's user has an
              unusable hash, another one with each new password there
    """

    user_id: int
    token_id: int | None = None
    password: str = ""


def sum_of(stored: str) -> str:
    """A sum that tells another stored password; it opens nothing."""
    return hashlib.sha256(stored.encode()).hexdigest()


def lapsed(proofs: Collection[Proof]) -> dict[Proof, str]:
    """Those that would no longer let anybody in, each with the reason."""
    tokens = {proof.token_id for proof in proofs if proof.token_id is not None}
    living = _living(tokens) if tokens else set()
    stored = _sums_of_active({proof.user_id for proof in proofs}) if proofs else {}
    found = {}
    for proof in proofs:
        if proof.user_id not in stored:  # also one disabled while the proof was made
            found[proof] = "the user was disabled or deleted"
        elif proof.token_id is not None and proof.token_id not in living:
            found[proof] = "its token was revoked or has expired"
        elif proof.password and stored.get(proof.user_id) != proof.password:
            found[proof] = "its password was changed"
    return found


def _living(tokens: Collection[int]) -> set[int]:
    rows = ApiToken.objects.filter(pk__in=tokens)
    now = datetime.now(UTC)
    return {row.pk for row in rows if row.ends_at is None or row.ends_at > now}


def _sums_of_active(users: Collection[int]) -> dict[int, str]:
    active = User.objects.filter(pk__in=users, is_active=True)
    rows = active.values_list("pk", "password")
    return {pk: sum_of(password) for pk, password in rows}
