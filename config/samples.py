"""Sample rows through the gateway: ties ingestion to `gateway.client`."""

from __future__ import annotations

import hashlib
import time
from itertools import islice
from typing import Any

from django.core.cache import cache

from core.errors import NotFound, TransientError
from gateway import client
from gateway.arrow_rows import json_rows

# Pages end their requests after 15 s, and a cancel takes up to 5.
WAIT_SECONDS = 6.0
AGAIN_SECONDS = 2
# An engine starts and reads its first table in 10 s; on two cores that also follow
# many tables it took 61.
LONGEST_SECONDS = 180
# A sample is one reply: what it holds is bounded, as a page is.
MOST_PAGES = 4
LATE = "rows_late"  # pages ask again automatically


def rows_through_gateway(user: str, sql: str, limit: int) -> list[list[Any]]:
    """The rows of a statement run as `user`, as many as lie on its first pages.

    TransientError `rows_late` while it runs or its engine starts: it goes on, and the
    next request takes it up.
    """
    key = "sample:" + hashlib.sha256(f"{user}\0{limit}\0{sql}".encode()).hexdigest()
    statement = _under_way(user, key) or client.submit_statement(
        user, sql, wait_seconds=WAIT_SECONDS, row_limit=limit
    )
    if statement["error"]:
        cache.delete(key)
        raise TransientError(statement["error"]["message"], code="lake_unreadable")
    if statement["state"] != "FINISHED":
        raise _late(user, key, statement["id"])
    cache.delete(key)
    pages = islice(client.batches_of(user, statement["id"]), MOST_PAGES)
    return [row for page in pages for row in json_rows(page)]


def _under_way(user: str, key: str) -> dict[str, Any] | None:
    known = cache.get(key)
    if known is None:
        return None
    try:
        return client.statement_of(user, known[0], wait_seconds=WAIT_SECONDS)
    except NotFound:
        cache.delete(key)
        return None


def _late(user: str, key: str, statement: str) -> TransientError:
    cache.add(key, (statement, time.time()), 2 * LONGEST_SECONDS)
    _, since = cache.get(key) or (statement, time.time())
    if time.time() - since < LONGEST_SECONDS:
        return TransientError(
            "a query engine is starting",
            code=LATE,
            hint="the rows can be read in a few seconds",
            facts={"retry_after_seconds": AGAIN_SECONDS},
        )
    cache.delete(key)
    client.cancel_statement(user, statement)
    return TransientError(
        "the rows did not come within %(seconds)s s",
        seconds=LONGEST_SECONDS,
        code="lake_unreadable",
        hint="see the log of the query engine, then ask again",
    )
