"""What tells this lake from every other one, in names at a source.

It is in the lake, like the streams that it is for: a restored metadata database, other
keys or another machine find the same slot again.
"""

from __future__ import annotations

import secrets

from ingest.lake.place import place_at


def lake_id(lake: str) -> str:
    """Eight hex digits, made once by whoever asks first."""
    place = place_at(lake) / "_sluice" / "lake_id"
    made = secrets.token_hex(4)
    if (found := place.read()) is not None:
        return found.decode().strip()
    if place.create(made):
        return made
    found = place.read()
    assert found is not None
    return found.decode().strip()
