"""REST of a job's events: a live stream, or a page of them for `application/json`.

A stream occupies a thread of the web server, so there are few of them and each is
short: it ends after a while and the client comes back with the id it has seen. Beyond
the limit a caller gets what is there at once and is asked to come back: no client is
refused, and pages are never starved.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from django.db import Error as DatabaseError
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.reply import Body
from catalog.api.stream_limit import Place, Places
from catalog.api.views import ApiView, page_size
from catalog.selectors.contents import require_log
from core.errors import NotFound
from core.json_values import exact, iso
from ingest.jobs.events import JobNews, Position, look, position_from
from ingest.pipelines import selectors

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


EVENT_STREAM = "text/event-stream"


class EventStreamRenderer(JSONRenderer):
    """Chosen for `text/event-stream`; only problems are ever rendered by it."""

    media_type = EVENT_STREAM
    format = "event-stream"


class JobEventsView(ApiView):
    """Moves, log lines and progress of a job, as they happen. `Last-Event-ID` (or
    `last_event_id`) goes on behind an event; streams end after half a minute and with
    the job, whose last event is `end`. `Accept: application/json` answers a page."""

    queries = frozenset({"last_event_id", "page_token", "page_size"})
    renderer_classes: Sequence[type[BaseRenderer]] = [EventStreamRenderer, JSONRenderer]
    content_negotiation_class = DefaultContentNegotiation

    @extend_schema(
        responses={
            (200, EVENT_STREAM): OpenApiTypes.STR,
            (200, "application/json"): OpenApiTypes.OBJECT,
            204: None,
        }
    )
    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        job = selectors.job_for(self.principal, job_id)
        require_log(self.principal, job)
        if request.method == "HEAD":
            return HttpResponse(content_type=EVENT_STREAM)
        asked = request.query_params
        given = request.headers.get("Last-Event-ID") or asked.get("last_event_id", "")
        if request.accepted_media_type != EVENT_STREAM:
            return _page(request, job.pk, asked.get("page_token") or given)
        since = position_from(given)
        if since.is_end and job.is_finished:
            return HttpResponse(status=204)  # tells a browser not to come back
        place = PLACES.take(self.principal.name)
        response = StreamingHttpResponse(
            JobStream(job.pk, since, place), content_type=EVENT_STREAM
        )
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        return response


def _page(request: Request, job_id: UUID, token: str) -> Response:
    seen = look(job_id, position_from(token), most=page_size(request))
    return Response(
        {
            "items": [news_body(news) for news in seen.items],
            "next_page_token": str(seen.position) if seen.is_more else None,
            "last_event_id": str(seen.position),
            "is_finished": seen.is_finished,
        }
    )
