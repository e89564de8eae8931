"""Asks a worker to look what is due, after the commit."""

from __future__ import annotations

import functools

from django.db import transaction

from core.dispatch import send

TICK = "ingest.tick"


def ring() -> None:
    """Once the surrounding transaction has committed; never raises."""
    transaction.on_commit(functools.partial(send, TICK), robust=True)
