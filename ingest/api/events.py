"""REST of a job's events: a live stream, or a page of them for `application/json`."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.views import ApiView, page_size
from catalog.selectors.contents import require_log
from ingest.api.streams import PLACES, JobStream, news_body
from ingest.jobs.events import look, position_from
from ingest.pipelines import selectors

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
