"""Sample rows through the gateway: what ties `ingest.sampling` to `gateway.client`."""

from __future__ import annotations

from typing import Any

from core.errors import TransientError
from gateway import client

WAIT_SECONDS = 10.0
AGAIN_SECONDS = 2
LATE = "rows_late"  # pages ask again by themselves


def rows_through_gateway(user: str, sql: str, limit: int) -> list[list[Any]]:
    """The rows of a statement run as `user`. TransientError `rows_late` while an
    engine starts: the statement is given up, the start goes on."""
    statement = client.submit_statement(
        user, sql, wait_seconds=WAIT_SECONDS, row_limit=limit
    )
    if statement["error"]:
        raise TransientError(statement["error"]["message"], code="lake_unreadable")
    if statement["state"] != "FINISHED":
        client.cancel_statement(user, statement["id"])
        raise TransientError(
            "a query engine is starting",
            code=LATE,
            hint="the rows can be read in a few seconds",
            facts={"retry_after_seconds": AGAIN_SECONDS},
        )
    rows: list[list[Any]] = client.results_of(user, statement["id"])["rows"]
    return rows
