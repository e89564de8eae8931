"""Threads that deliver. They wait for nobody's message: what is due is in the database.

Beside the tick, not in it: a receiver that takes its time must not hold up rounds.
"""

from __future__ import annotations

import logging
import threading

from django.db import Error as DatabaseError
from django.db import close_old_connections, connections

from ingest.alerts.delivery import deliver_due

log = logging.getLogger(__name__)

THREADS = 2
PERIOD_SECONDS = 2.0
AWAY_SECONDS = 3.0


class Postman:
    """start() once; stop() ends it after the attempt that runs, if it ends soon."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"postman-{n}", daemon=True)
            for n in range(THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, *, seconds: float) -> None:
        """What is cut off is sent again by whoever starts next."""
        self._stop.set()
        for thread in self._threads:
            thread.join(seconds)

    def _work(self) -> None:
        while not self._stop.wait(self._round()):
            pass
        connections.close_all()

    @staticmethod
    def _round() -> float:
        close_old_connections()
        try:
            deliver_due()
        except DatabaseError as error:
            log.warning("deliveries wait for the metadata database: %s", error)
            connections.close_all()
            return AWAY_SECONDS
        except Exception:
            # one message that cannot be made must not end all later ones
            log.exception("a delivery failed inside Sluice")
            return AWAY_SECONDS
        return PERIOD_SECONDS
