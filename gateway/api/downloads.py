"""A finished statement's stored result as a file, streamed; nothing runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import StreamingHttpResponse

from catalog.api.stream_limit import Place, Places
from core.errors import StaleState, TransientError
from gateway import client
from gateway.exports import (
    Chunks,
    ResultColumn,
    arrow_chunks,
    csv_chunks,
    parquet_chunks,
)
from gateway.xlsx import xlsx_chunks

if TYPE_CHECKING:
    import pyarrow

# A slow reader holds a thread of the web process for as long as it reads.
DOWNLOADS = Places(most=4, most_each=2)
RETRY_SECONDS = 3
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@dataclass(frozen=True, slots=True)
class Format:
    content_type: str
    write: Callable[[Sequence[ResultColumn], Iterable[pyarrow.RecordBatch]], Chunks]


FORMATS = {
    "csv": Format("text/csv; charset=utf-8; header=present", csv_chunks),
    "parquet": Format("application/vnd.apache.parquet", parquet_chunks),
    "arrow": Format("application/vnd.apache.arrow.stream", arrow_chunks),
    "xlsx": Format(XLSX, xlsx_chunks),
}


@dataclass(frozen=True, slots=True)
class Download:
    """A stored result that may be sent as a file."""

    user: str
    statement_id: str
    form: Format
    columns: list[dict[str, Any]]
    headers: dict[str, str]


def download_of(user: str, statement_id: str, name: str) -> Download:
    """NotFound, StaleState while there is no result; nothing is sent yet."""
    columns = client.columns_of(user, statement_id)
    if not columns:
        raise StaleState("the statement has no result set", code="no_result")
    statement = client.statement_of(user, statement_id)
    form = FORMATS[name]
    file = f"statement-{statement_id[:8]}.{name}"
    headers = {
        "Content-Type": form.content_type,
        "Content-Disposition": f'attachment; filename="{file}"',
        "X-Sluice-Rows": str(statement["rows_so_far"]),
        "X-Sluice-Truncated": "true" if statement["is_truncated"] else "false",
    }
    return Download(user, statement_id, form, columns, headers)


def send(
    wanted: Download, *, hang_up: Callable[[], None] | None
) -> StreamingHttpResponse:
    """The whole result. What goes wrong on the way cuts the transfer off, so that
    a part is never taken for the whole; so does `hang_up`, for a user who has none."""
    columns = [ResultColumn(c["name"], c["type"]) for c in wanted.columns]
    pages = client.batches_of(wanted.user, wanted.statement_id)
    chunks = wanted.form.write(columns, pages)
    place = DOWNLOADS.take(wanted.user, end=hang_up)
    if place is None:
        raise TransientError(
            "too many downloads are under way",
            code="too_many_downloads",
            hint="wait until one of them is done",
            facts={"retry_after_seconds": RETRY_SECONDS},
        )
    return StreamingHttpResponse(_Body(chunks, place), headers=wanted.headers)


class _Body:
    """Chunks of a file; the web server's `close()` gives the place back."""

    def __init__(self, chunks: Chunks, place: Place) -> None:
        self._chunks = chunks
        self._place = place

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        self._chunks.close()
        self._place.give_back()
