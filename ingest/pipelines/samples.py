"""A few rows and the newest commits of a lake table, straight from its files.

No JVM is started: rows come through the `hudi` reader, log files merged in, deleted
rows left out. Who may see them is decided before this is called.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from catalog.models import Table
from core.errors import InvalidRequest, TransientError
from core.json_values import exact
from core.object_store import StoreAccess
from ingest.lake.commits import Commit, read_commit, read_timeline
from ingest.lake.place import place_at

DELETED = "_sluice_deleted"
BATCH_ROWS = 256
MAX_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Sample:
    """Source columns only, in their order, each with name and type as a statement's
    result has them; `rows` are JSON values, row by row."""

    columns: list[dict[str, str]]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class CommitPage:
    """Newest completion first. `next_before`: completion time to go on below."""

    commits: list[Commit]
    next_before: str | None


def sample_of(table: Table, *, limit: int) -> Sample:
    """At most `limit` alive rows as they are now. Exact values as in results."""
    held = table.columns.order_by("position")
    columns = [{"name": column.name, "type": column.type} for column in held]
    if not table.is_queryable or not columns:
        return Sample(columns, [])
    if any("timestamp_ntz" in column["type"] for column in columns):
        # hudi-rs 0.5 panics: no local-timestamp of Avro
        raise _unreadable("query it: it has a timestamp without time zone")
    if table.identity.get("partial_update_mode"):
        # hudi-rs 0.5 shows NULL in some columns where the value was kept
        raise _unreadable("query it: it has partial updates")
    rows: list[list[Any]] = []
    names = [column["name"] for column in columns]
    for batch in _batches(table.path, names):
        alive = [not deleted for deleted in batch.column(DELETED).to_pylist()]
        values = [batch.column(name).to_pylist() for name in names]
        for index, is_alive in enumerate(alive):
            if is_alive:
                rows.append([plain(column[index]) for column in values])
            if len(rows) == limit:
                return Sample(columns, rows)
    return Sample(columns, rows)


def _batches(path: str, names: list[str]) -> Any:
    # 40 MB of native code that only samples need
    from hudi import HudiReadOptions, HudiTableBuilder

    try:
        builder = HudiTableBuilder.from_base_uri(place_at(path).uri)
        table = builder.with_storage_options(_storage_options()).build()
        options = HudiReadOptions(projection=[*names, DELETED])
        yield from table.read_stream(options.with_batch_size(BATCH_ROWS))
    except Exception as error:
        # the reader's own error class is not exported; "HudiCoreError" is its name
        known = isinstance(error, OSError | RuntimeError | ValueError)
        if not known and type(error).__name__ != "HudiCoreError":
            raise
        raise _unreadable("try again; a commit may have been under way") from error


def _storage_options() -> dict[str, str]:
    access: StoreAccess | None = settings.SLUICE_OBJECT_STORE
    if access is None:
        return {}
    return {
        "aws_endpoint": access.address,
        "aws_region": access.region,
        "aws_access_key_id": access.access_key,
        "aws_secret_access_key": access.secret_key,
        "aws_allow_http": str(access.address.startswith("http:")).lower(),
        "aws_virtual_hosted_style_request": str(not access.path_style).lower(),
    }


def _unreadable(hint: str) -> TransientError:
    return TransientError(
        "the lake table's files could not be read",
        code="lake_unreadable",
        hint=hint,
    )


def plain(value: Any, *, longest: int | None = MAX_TEXT) -> Any:
    """One value for JSON: what JSON cannot hold exactly is a string. longest: of texts
    and bytes, which are cut there; None = nothing is."""
    if isinstance(value, bool | None):
        return value
    if isinstance(value, int):
        return exact(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _named(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value[:longest]).decode()
    if isinstance(value, list):
        return [plain(item, longest=longest) for item in value]
    text = str(value)
    is_short = longest is None or len(text) <= longest
    return text if is_short else text[:longest] + "…"


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def commits_of(table: Table, *, size: int, before: str | None = None) -> CommitPage:
    """Completed instants from the timeline itself; [] while there is no table."""
    if before is not None and not (before.isdigit() and len(before) == 17):
        raise InvalidRequest("page_token is not one of this list", code="bad_token")
    if not table.path:
        return CommitPage([], None)
    base = place_at(table.path)
    done = [
        instant
        for instant in reversed(read_timeline(base).completed_writes)
        if before is None or instant.completed < before
    ]
    page = [read_commit(base, instant) for instant in done[:size]]
    more = len(done) > size
    return CommitPage(page, page[-1].instant.completed if more else None)
