"""The kinds of ingestion jobs by name: as rows store them, and as drivers get them."""

from __future__ import annotations

from typing import Final

SNAPSHOT: Final = "snapshot"
RESYNC: Final = "resync"
SYNC: Final = "round"
COMPACT: Final = "compact"
VERIFY: Final = "verify"
REPAIR: Final = "repair"
REMOVE: Final = "remove"

LOADS: Final = frozenset({SNAPSHOT, RESYNC})
