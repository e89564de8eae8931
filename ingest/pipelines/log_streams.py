"""Names of a source's stream in the lake and of what is ours at its server, and waking
the host that follows it.

Slot and publication carry a name of the installation that is kept in the lake, beside
the segments that a slot belongs to: a database that was deleted or restored does not
change it, and two installations never read one slot.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import connection

from ingest.lake.place import place_at

# The host of followers listens to this channel of PostgreSQL.
CHANNEL = "sluice_followers"


def stream_of(datasource_id: int) -> str:
    return f"pg{datasource_id}"


def slot_of(datasource_id: int) -> str:
    """Also the name of the publication that is made with it."""
    return f"sluice_{datasource_id}_{installation()}"


def installation() -> str:
    """Eight hexadecimal digits, made with the first stream."""
    place = place_at(settings.SLUICE_LAKE_URI) / "_sluice" / "installation"
    found = place.read()
    if found is None:
        place.create(uuid.uuid4().hex[:8])
        found = place.read() or b""
    return found.decode()


def wake_followers() -> None:
    """Have the host of followers look at its rows as soon as the surrounding
    transaction has committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
