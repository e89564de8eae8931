"""Take and release leases. The token of a lease never goes back.

Database time decides expiry, so that the clocks of workers do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from core.models import Lease


@dataclass(frozen=True, slots=True)
class Held:
    """Proof of a taken lease: pass `token` to everything that writes under it."""

    name: str
    owner: str
    token: int


def take_lease(name: str, *, owner: str, seconds: float) -> Held | None:
    """The lease if it is free, expired or already ours; else None.

    A new owner gets the next token; the same owner keeps theirs.
    """
    with transaction.atomic(savepoint=False):
        rows = Lease.objects.select_for_update().annotate(database_now=Now())
        row = rows.filter(name=name).first()
        if row is None:
            # the insert of two at once waits for the first of them
            Lease.objects.get_or_create(name=name)
            row = rows.get(name=name)
        is_free = (
            not row.owner
            or row.expires_at is None
            or row.expires_at <= row.database_now
        )
        if row.owner != owner and not is_free:
            return None
        if row.owner != owner or is_free:
            row.token += 1
        row.owner = owner
        row.expires_at = row.database_now + timedelta(seconds=seconds)
        row.save()
    return Held(name=name, owner=owner, token=row.token)


def owner_of(job_id: UUID, attempt: int) -> str:
    """Return the owner of the leases of a job's attempt."""
    return f"job:{job_id}:{attempt}"


def release_all(owner: str) -> None:
    """Give back every lease that this owner still holds."""
    Lease.objects.filter(owner=owner).update(owner="", expires_at=None)


def outgrow(held: Held, token: int) -> Held:
    """The same lease with a higher token, so that the ones after it are higher, too."""
    Lease.objects.filter(name=held.name, owner=held.owner, token=held.token).update(
        token=token
    )
    return Held(held.name, held.owner, token)


def next_token(name: str) -> int:
    """Raise the token without an owner: for a take-over that fences the old one."""
    Lease.objects.get_or_create(name=name)
    with transaction.atomic():
        row = Lease.objects.select_for_update().get(name=name)
        row.token += 1
        row.owner, row.expires_at = "", None
        row.save()
    return row.token
