"""How often sessions plan compactions that merge little: hundreds of tables that commit
every few seconds would otherwise spend the driver on compactions, and commits wait.

It must not know tables, Spark or a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

# To plan and execute a compaction of a few rows takes about one second of a core.
EACH_SECONDS = 4.0
# One that writes more is worth that: it never waits.
LITTLE_BYTES = 16_000_000
# While the pace is closed, a table looks at each such turn whether it has more.
LOOKS_EACH = 4


class Pace:
    """Of one driver; any thread. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open_at = clock()

    @property
    def is_open(self) -> bool:
        return self._clock() >= self._open_at

    def take(self) -> bool:
        """The one place there is; False when another table was first."""
        with self._lock:
            if not self.is_open:
                return False
            self._open_at = self._clock() + EACH_SECONDS
            return True
