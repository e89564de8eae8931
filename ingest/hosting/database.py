"""The steps of a host that need the metadata database, which may be away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import django.db
from django.db import connection

from core.database_errors import is_away

log = logging.getLogger(__name__)


@dataclass(slots=True)
class DatabaseSteps:
    """who: the host, and what goes on without the database, for its log."""

    who: str
    goes_on: str
    is_away: bool = False

    def run(self, work: Callable[[], object]) -> None:
        """Never raises: the next step tries again, and what the host looks after must
        not end with a defect of ours, or because another process was first."""
        try:
            work()
            self.is_away = False
        except Exception as error:
            if is_away(error):
                if not self.is_away:
                    log.warning("the database is away, %s: %s", self.goes_on, error)
                self.is_away = True
                connection.close()
                return
            log.exception("a step of %s failed", self.who)
            if isinstance(error, django.db.Error):
                connection.close()
