"""`manage.py tick`: the loop that finds everything due in the database.

It is what makes the broker expendable: whatever no message announced is found here.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any

from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError
from django.db import close_old_connections, connections

from catalog.access.external_users import suspend_idle_now_and_then
from catalog.access.ldap_login import ring_due_recheck
from core.database_errors import is_away
from core.jobs import pages
from core.processes.stop import stop_event
from ingest.alerts.delivery import DeliveryWorker
from ingest.pipelines.rediscovery import discover_again_now_and_then
from ingest.scheduler.tick import Ticking

log = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0
AWAY_SECONDS = 3.0
# What it finds was rung for when it was asked for.
_OTHERS_EVERY = 3


class Command(BaseCommand):
    help = "Run the periodic tick: due syncs, compactions, discoveries, lost jobs."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        self._ticking, self._passes = Ticking(), itertools.count()
        stop = stop_event()
        delivery = DeliveryWorker()
        delivery.start()
        while not stop.wait(PERIOD_SECONDS if self._tick() else AWAY_SECONDS):
            pass
        delivery.stop(seconds=2)

    def _tick(self) -> bool:
        """Whether the database did all that was asked."""
        close_old_connections()
        try:
            self._ticking.tick()
            if next(self._passes) % _OTHERS_EVERY == 0:
                pages.notify_due()
                ring_due_recheck()
                suspend_idle_now_and_then()
                discover_again_now_and_then()
        except DatabaseError as error:
            if is_away(error):
                log.warning("the metadata database is away: %s", error)
            else:
                log.exception("the metadata database refused a statement")
            connections.close_all()
            return False
        return True
