"""A few rows of a lake table: from its files, or through the gateway where the
reader of files does not know a name. Privileges are checked before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.models import Table
from core.errors import TransientError
from gateway import client
from ingest.samples import sample_of

ROWS = 20
WAIT_SECONDS = 10.0
LATE = "rows_late"  # the page asks again by itself


@dataclass(frozen=True, slots=True)
class Shown:
    columns: list[dict[str, Any]]
    rows: list[list[Any]]


def sample_for(user: str, table: Table) -> Shown:
    """At most ROWS rows. TransientError when neither way answers in time."""
    try:
        found = sample_of(table, limit=ROWS)
    except TransientError:
        return _through_gateway(user, table)
    return Shown([{"name": n, "type": t} for n, t in found.columns], found.rows)


def _through_gateway(user: str, table: Table) -> Shown:
    names = ", ".join(f"`{c.name}`" for c in table.columns.all() if c.type)
    statement = client.submit_statement(
        user,
        f"SELECT {names} FROM `{table.database.name}`.`{table.name}` LIMIT {ROWS}",
        wait_seconds=WAIT_SECONDS,
        row_limit=ROWS,
    )
    if statement["error"]:
        raise TransientError(statement["error"]["message"])
    if statement["state"] != "FINISHED":
        client.cancel_statement(user, statement["id"])
        raise TransientError(
            "a query engine is starting",
            code=LATE,
            hint="the rows come by themselves in a few seconds",
        )
    result = client.results_of(user, statement["id"])
    return Shown(result["columns"], result["rows"])
