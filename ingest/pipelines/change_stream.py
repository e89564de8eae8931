"""Changes of a lake table, from the stream of its source's log, as it has applied them.

Who may see them is decided before: they show every row and every column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings

from catalog.models import Column, Table
from catalog.selectors.paging import key_of, key_token
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.lake.chain import stream_folder
from ingest.models.states import LIVE
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.samples import plain
from ingest.pipelines.table_commands import not_now
from ingest.pipelines.transitions import require_pipeline
from ingest.planning.facts import LOG

if TYPE_CHECKING:
    from ingest.lake.changes import LogChange, Mark


@dataclass(frozen=True, slots=True)
class Change:
    """op: one of `ingest.contract.segments.OPS`. row: what it is now, without what was
    not sent; None where it was deleted. before: of a deleted row all that the log has.
    position, committed_at: of the end of its epoch."""

    op: str
    key: Mapping[str, Any]
    row: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    unchanged: list[str]
    position: str
    committed_at: datetime | None
    epoch: int
    after: str


@dataclass(frozen=True, slots=True)
class Changes:
    """after: the token behind them, also where there are none. is_last: nothing more
    was there."""

    items: list[Change]
    after: str
    is_last: bool


def changes_of(table: Table, *, after: str | None, limit: int) -> Changes:
    """At most `limit` changes behind a token; without one none, and the token of now:
    who then reads the table and goes on from there has seen everything.

    InvalidRequest `not_followed`, `not_now`, `bad_after`; StaleState as
    `ingest.lake.changes.read_changes`.
    """
    from ingest.lake.changes import Mark, read_changes  # pyarrow

    pipeline = require_pipeline(table)
    if pipeline.capture != LOG:
        raise InvalidRequest(
            "%(table)s does not follow a log, so its changes are not known one by one",
            table=table,
            code="not_followed",
            hint="capture it by `log`",
        )
    applied = table.last_commit_epoch or 0
    if after is None:
        if pipeline.state != LIVE:
            raise not_now(pipeline, Sentence("begin with the changes of"))
        now = Mark(applied, pipeline.load_name)
        return Changes([], _token(table, now), is_last=True)
    mark = Mark(*_opened(table, after))
    folder = stream_folder(
        settings.SLUICE_LAKE_URI,
        stream_of(pipeline.source_table.database.datasource_id),
    )
    page = read_changes(folder, table.pk, mark, until=applied, most=limit)
    columns = {c.source_name: c for c in table.columns.order_by("position")}
    items = [_shown(table, change, columns) for change in page.changes]
    return Changes(items, _token(table, page.after), page.is_last)


def _shown(table: Table, change: LogChange, columns: Mapping[str, Column]) -> Change:
    sent = {
        column.name: plain(change.values[name], longest=None)
        for name, column in columns.items()
        if name in change.values and name not in change.unchanged
    }
    key = {name: sent.get(name) for name in table.record_key}
    rest = [value for name, value in sent.items() if name not in key]
    is_gone, is_all = change.op == "delete", change.op == "truncate"
    # of a sharded table which of them
    emptied = {name: value for name, value in key.items() if value is not None}
    # a log without whole rows has NULL in the rest of a deleted one
    before = sent if any(value is not None for value in rest) else key
    at = change.segment.committed
    return Change(
        op=change.op,
        key=emptied if is_all else key,
        row=None if is_gone or is_all else sent,
        before=before if is_gone else None,
        unchanged=sorted(columns[n].name for n in change.unchanged if n in columns),
        position=change.segment.end,
        committed_at=datetime.fromtimestamp(at / 1e6, UTC) if at else None,
        epoch=change.segment.number,
        after=_token(table, change.after),
    )


def _token(table: Table, mark: Mark) -> str:
    return key_token([mark.number, mark.load, mark.rows], _scope(table))


def _opened(table: Table, token: str) -> list[Any]:
    try:
        return key_of(token, _scope(table))
    except InvalidRequest as error:
        raise InvalidRequest(
            "`after` is no token of the changes of %(table)s",
            table=table,
            code="bad_after",
            hint="begin without it",
        ) from error


def _scope(table: Table) -> str:
    return f"changes:{table.pk}"
