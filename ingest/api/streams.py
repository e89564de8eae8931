"""Server-sent events of one job, and how many such streams a web process keeps open.

A stream occupies a thread of the web server, so there are few of them and each is
short: it ends by itself and the client comes back with the id it has seen. Beyond the
limit a caller gets what is there at once and is told to come back: nobody is refused,
and pages are never starved.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from django.db import Error as DatabaseError

from catalog.api.bodies import Body, instant, number
from core.errors import NotFound
from ingest.jobevents import JobNews, Position, look

log = logging.getLogger(__name__)

# The web process has 12 threads: two thirds of them stay free for everything else.
MOST_STREAMS = 4
MOST_OF_ONE_USER = 2
STREAM_SECONDS = 25.0
PERIOD_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
RETRY_MS, RETRY_CROWDED_MS = 500, 3_000


class Places:
    """Open streams of this process, in all and by user."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, user: str) -> Place | None:
        with self._lock:
            is_full = self._taken.total() >= self._most
            if is_full or self._taken[user] >= self._most_each:
                return None
            self._taken[user] += 1
        return Place(self, user)

    def leave(self, user: str) -> None:
        with self._lock:
            self._taken[user] -= 1
            self._taken = +self._taken

    @property
    def taken(self) -> int:
        with self._lock:
            return self._taken.total()


@dataclass(slots=True)
class Place:
    """One stream's right to stay open; given back once."""

    places: Places
    user: str
    is_given_back: bool = False

    def give_back(self) -> None:
        if not self.is_given_back:
            self.is_given_back = True
            self.places.leave(self.user)


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
    return _frame(news.kind, {"at": instant(news.at), **_data(news)}, news.position)


def news_body(news: JobNews) -> Body:
    """The same event as a member of a page."""
    at = instant(news.at)
    return {"id": str(news.position), "event": news.kind, "at": at, "data": _data(news)}


def _data(news: JobNews) -> Body:
    counts: Body = {
        name: number(news.data[name]) for name in ("done", "total") if name in news.data
    }
    return news.data | counts


def _frame(event: str, data: Body, position: Position) -> bytes:
    text = json.dumps(data, ensure_ascii=False)
    return f"id: {position}\nevent: {event}\ndata: {text}\n\n".encode()
