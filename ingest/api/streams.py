"""Server-sent events of one job, over a few short streams.

A stream occupies a thread of the web server, so there are few of them and each is
short: it ends after a while and the client comes back with the id it has seen. Beyond
the limit a caller gets what is there at once and is asked to come back: no client is
refused, and pages are never starved.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from uuid import UUID

from django.db import Error as DatabaseError

from catalog.api.reply import Body
from catalog.api.stream_limit import Place, Places
from core.errors import NotFound
from core.json_values import exact, iso
from ingest.jobs.events import JobNews, Position, look

log = logging.getLogger(__name__)

# Of the web process's threads: most stay free for everything else.
MOST_STREAMS = 4
MOST_OF_ONE_USER = 2
STREAM_SECONDS = 25.0
PERIOD_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
RETRY_MS, RETRY_CROWDED_MS = 500, 3_000


PLACES = Places(most=MOST_STREAMS, most_each=MOST_OF_ONE_USER)


class JobStream:
    """Frames of `text/event-stream`. Without a place: what is there now, then over.

    The server calls `close()` however the response ends, also when nothing of it was
    read.
    """

    def __init__(self, job_id: UUID, since: Position, place: Place | None) -> None:
        self._job_id = job_id
        self._since = since
        self._place = place
        self._frames = self._run()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._frames)

    def close(self) -> None:
        self._frames.close()
        if self._place:
            self._place.give_back()

    def _run(self) -> Generator[bytes, None, None]:
        yield f"retry: {RETRY_MS if self._place else RETRY_CROWDED_MS}\n\n".encode()
        until = time.monotonic() + (STREAM_SECONDS if self._place else 0.0)
        spoken = time.monotonic()
        while True:
            try:
                seen = look(self._job_id, self._since)
            except NotFound:
                yield _frame("end", {"state": None}, replace(self._since, is_end=True))
                return
            except DatabaseError:
                log.warning("events of job %s: the database is away", self._job_id)
                return
            if seen.items:
                yield b"".join(map(frame_of, seen.items))
                spoken = time.monotonic()
            self._since = seen.position
            if seen.is_finished:
                end = replace(self._since, is_end=True)
                yield _frame("end", {"state": seen.state}, end)
                return
            if seen.is_more:
                continue
            if time.monotonic() >= until:
                return
            if time.monotonic() - spoken >= HEARTBEAT_SECONDS:
                yield b": still here\n\n"
                spoken = time.monotonic()
            time.sleep(PERIOD_SECONDS)


def frame_of(news: JobNews) -> bytes:
    return _frame(news.kind, {"at": iso(news.at), **_data(news)}, news.position)


def news_body(news: JobNews) -> Body:
    """The same event as a member of a page."""
    at = iso(news.at)
    return {"id": str(news.position), "event": news.kind, "at": at, "data": _data(news)}


def _data(news: JobNews) -> Body:
    counts: Body = {
        name: exact(count)
        for name in ("done", "total")
        if (count := news.data.get(name)) is not None
    }
    return news.data | counts


def _frame(event: str, data: Body, position: Position) -> bytes:
    text = json.dumps(data, ensure_ascii=False)
    return f"id: {position}\nevent: {event}\ndata: {text}\n\n".encode()
