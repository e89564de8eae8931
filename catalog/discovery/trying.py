"""A source is tried before it is stored: the steps of a connection test, right now.

It takes a thread of the web server, so it is short and few run at a time.
"""

from __future__ import annotations

from dataclasses import replace
from threading import BoundedSemaphore

from catalog.discovery.access import access_for
from catalog.discovery.probe import Report, run_probe
from catalog.models import Datasource
from core.errors import TransientError

MOST_AT_ONCE = 3
CONNECT_SECONDS, STATEMENT_SECONDS = 5, 10
_places = BoundedSemaphore(MOST_AT_ONCE)


def try_source(row: Datasource) -> Report:
    """Of a row that may be stored nowhere yet. TransientError while others try."""
    if not _places.acquire(blocking=False):
        raise TransientError(
            f"{MOST_AT_ONCE} connection tests run already",
            code="busy",
            hint="try again in some seconds",
        )
    try:
        access = access_for(row)
        return run_probe(
            replace(
                access,
                connect_timeout=min(access.connect_timeout, CONNECT_SECONDS),
                statement_timeout=min(access.statement_timeout, STATEMENT_SECONDS),
            )
        )
    finally:
        _places.release()
