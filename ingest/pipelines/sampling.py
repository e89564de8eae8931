"""A few rows of a lake table, the one way for REST and pages.

From the table's files where their reader can; else by a statement of the caller's,
which somebody above runs (`registered`): this package must not know the gateway.
Who may see the rows is decided before.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catalog.access import audit
from catalog.access.effective import rights_on
from catalog.access.enforcement import absent
from catalog.access.grants import GROUP, parse_grantee, parse_securable
from catalog.access.policy import Principal, Privilege, Securable
from catalog.access.principals import principal_for
from catalog.access.rules import limits_for
from catalog.models import Table
from catalog.names import LAKE
from core.errors import InvalidRequest, TransientError
from ingest.pipelines.samples import Sample, plain, sample_of

# user, statement, most rows → rows; TransientError when they do not come in time
Query = Callable[[str, str, int], list[list[Any]]]


@dataclass(slots=True)
class Registered:
    """Filled once at start by whoever composes the product."""

    query: Query | None = None


registered = Registered()


def sample_for(user: str, table: Table, *, limit: int) -> Sample:
    """At most `limit` alive rows as they are now; values have the same form either
    way. TransientError when neither way answers in time.

    Where rights on rows or columns limit the user, by the engine only, which keeps
    them: files have all rows.
    """
    principal = principal_for(user)
    limits = limits_for(principal).on(table.database.name, table.name)
    if limits.is_whole:
        with contextlib.suppress(TransientError):
            found = sample_of(table, limit=limit)
            # a statement has lines of its own
            audit.record(
                "table.sample", on=str(table), actor=user, rows=len(found.rows)
            )
            return found
    return rows_seen_by(principal, table, limit=limit)


def rows_seen_by(
    principal: Principal, table: Table, *, limit: int, remark: str = ""
) -> Sample:
    """Rows and source columns as that principal's own statement gets them."""
    if registered.query is None:
        raise TransientError(
            "the table's rows cannot be read here", code="lake_unreadable"
        )
    database = table.database.name
    on = limits_for(principal).on(database, table.name)
    held = table.columns.order_by("position")
    shown = [c for c in held if on.shows(c.name, shows_keys=False)]
    if not shown:
        return Sample([], [])
    chosen = ", ".join(_chosen(column.name, column.type) for column in shown)
    sql = f"SELECT {remark}{chosen} FROM `{database}`.`{table.name}` LIMIT {limit}"
    kinds = [column.type for column in shown]
    rows = [
        [as_sampled(value, kind) for value, kind in zip(row, kinds, strict=True)]
        for row in registered.query(principal.name, sql, limit)
    ]
    columns = [{"name": column.name, "type": column.type} for column in shown]
    return Sample(columns, rows)


def preview_for(who: str, on: str, *, by: str, limit: int) -> Sample:
    """What "user:ann" sees of a lake table. In the audit, and so is the statement
    that is run as her, with a remark on whose behalf."""
    kind, name = parse_grantee(who)
    if kind == GROUP:
        raise InvalidRequest(
            "a preview is of a user", code="invalid_principal", hint="user:ann"
        )
    securable = parse_securable(on)
    table = _lake_table(securable)
    principal = principal_for(name)
    audit.record("access.preview", on=str(securable), actor=by, principal=who)
    if not _may_read(principal, securable):
        return Sample([], [])
    remark = f"/* preview by {by} */ "
    return rows_seen_by(principal, table, limit=limit, remark=remark)


def _may_read(principal: Principal, on: Securable) -> bool:
    """All of its columns or some; else the table does not exist for them."""
    (select,) = (
        right
        for right in rights_on(principal, on)
        if right.privilege is Privilege.SELECT
    )
    return select.decision.allowed or select.decision.reason == "columns"


def _lake_table(on: Securable) -> Table:
    found = Table.objects.filter(
        database__datasource__name=LAKE, database__name=on.database, name=on.table
    ).select_related("database")
    if on.datasource != LAKE or (table := found.first()) is None:
        raise absent(on)
    return table


def _chosen(name: str, kind: str) -> str:
    # arrays come as text; without to_json a quote within an item is not escaped
    return f"to_json(`{name}`) AS `{name}`" if kind == "array<string>" else f"`{name}`"


def as_sampled(value: Any, kind: str) -> Any:
    """A value of a statement's result in the form that a value of a file has."""
    if not isinstance(value, str):
        return value
    try:
        if kind.startswith("timestamp"):
            moment = dt.datetime.fromisoformat(value)
            return plain(moment.replace(tzinfo=dt.UTC if kind == "timestamp" else None))
        if kind == "binary":
            return plain(bytes.fromhex(value))
        if kind.startswith("array<"):
            return _items(value, kind.removeprefix("array<").removesuffix(">"))
    except ValueError:
        return plain(value)
    return plain(value)


def _items(text: str, kind: str) -> Any:
    # decimals stay as they are written
    as_float = float if kind in {"float", "double"} else str
    as_int = str if kind.startswith("decimal") else int
    items = json.loads(text, parse_float=as_float, parse_int=as_int)
    return [as_sampled(plain(item), kind) for item in items]
