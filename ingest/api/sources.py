"""REST of a source as a whole: its failed tables, and the reading of its log."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require
from catalog.access.policy import Principal, Privilege, Securable
from catalog.api.idempotency import idempotent
from catalog.api.serializers import Empty
from catalog.api.views import ApiView, body_of, members_of
from catalog.datasources import require_a_source
from catalog.models import Datasource
from catalog.selectors.tables import datasource_for
from ingest.api import replies, requests
from ingest.pipelines.capture_status import capture_status
from ingest.pipelines.followers import start_capture, stop_capture
from ingest.pipelines.source_commands import resume_failed


class DatasourceResumeView(ApiView):
    @extend_schema(request=Empty, responses=replies.TablesResumed)
    @idempotent
    def post(self, request: Request, ds: str) -> Response:
        """Resume every failed table of this source that the caller may operate."""
        require(self.principal, Privilege.OPERATE, Securable(ds))
        members_of(request)
        row = datasource_for(self.principal, ds)
        require_a_source(row)
        resumed, left = resume_failed(self.principal, row)
        return Response({"resumed": resumed, "left": left})


class CaptureView(ApiView):
    @extend_schema(responses=replies.Capture)
    def get(self, request: Request, ds: str) -> Response:
        """How its log is read, what of it waits, and what its tables have applied."""
        row = _source(self.principal, ds)
        return Response(replies.Capture.body(capture_status(self.principal, row)))


class StartCaptureView(ApiView):
    @extend_schema(request=requests.CaptureStart, responses=replies.Capture)
    @idempotent
    def post(self, request: Request, ds: str) -> Response:
        """Read its log, from where that was stopped; after a failure at once."""
        require(self.principal, Privilege.OPERATE, Securable(ds))
        body = body_of(requests.CaptureStart, request)
        row = _source(self.principal, ds)
        start_capture(row, begin_anew=body["begin_anew"])
        return Response(replies.Capture.body(capture_status(self.principal, row)))


class StopCaptureView(ApiView):
    @extend_schema(request=Empty, responses=replies.Capture)
    @idempotent
    def post(self, request: Request, ds: str) -> Response:
        """Read its log no more. The source keeps it until reading is started again."""
        require(self.principal, Privilege.OPERATE, Securable(ds))
        members_of(request)
        row = _source(self.principal, ds)
        stop_capture(row)
        return Response(replies.Capture.body(capture_status(self.principal, row)))


def _source(principal: Principal, name: str) -> Datasource:
    row = datasource_for(principal, name)
    require_a_source(row)
    return row
