"""Waking the hosts of followers, which else find a change within a second."""

from __future__ import annotations

from django.db import connection

# They listen to this channel of PostgreSQL.
CHANNEL = "sluice_followers"


def wake_followers() -> None:
    """Have them look at their rows as soon as the surrounding transaction has
    committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
