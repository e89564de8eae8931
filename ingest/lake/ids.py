"""The id of the lake, and the highest ids of sources and tables that it has something
of: none of these is given out again by a metadata database that does not know them.

The lake's own id tells it from every other one, in names at a source, and is in the
lake, like the streams that it is for: a restored metadata database, other keys or
another machine find the same slot again.
"""

from __future__ import annotations

import secrets
from string import ascii_lowercase

from ingest.contract.records import SourceRecord, TableRecord
from ingest.lake.place import place_at
from ingest.lake.records import recorded


def last_table(lake: str) -> int:
    """Of tables that have a record, a fence or staged rows; 0 when none has."""
    root = place_at(lake) / "_sluice"
    found = [name.partition(".")[0] for name in (root / "fence").names()]
    found += (root / "staging").names()
    ids = [int(name) for name in found if name.isdecimal()]
    return max([*ids, *recorded(lake, TableRecord)], default=0)


def last_source(lake: str) -> int:
    """Of sources that have a record or a stream; 0 when none has."""
    root = place_at(lake) / "_sluice"
    # streams begin with letters that say the kind of the source
    found = [name.lstrip(ascii_lowercase) for name in (root / "log").names()]
    ids = [int(name) for name in found if name.isdecimal()]
    return max([*ids, *recorded(lake, SourceRecord)], default=0)


def lake_id(lake: str) -> str:
    """Eight hex digits, made once by whoever asks first."""
    place = place_at(lake) / "_sluice" / "lake_id"
    if (found := place.read()) is None:
        place.create(secrets.token_hex(4))
        found = place.read()
    assert found is not None
    return found.decode().strip()
