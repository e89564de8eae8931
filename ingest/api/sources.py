"""REST of what is asked of all tables of a source at once."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import selectors
from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.api.idempotency import idempotent
from catalog.api.serializers import Empty
from catalog.api.views import ApiView, members_of
from catalog.datasources import require_a_source
from ingest.api import replies
from ingest.pipelines.source_commands import resume_failed


class DatasourceResumeView(ApiView):
    @extend_schema(request=Empty, responses=replies.TablesResumed)
    @idempotent
    def post(self, request: Request, ds: str) -> Response:
        """Resume every failed table of this source that the caller may operate."""
        require(self.principal, Privilege.OPERATE, Securable(ds))
        members_of(request)
        row = selectors.datasource_for(self.principal, ds)
        require_a_source(row)
        resumed, left = resume_failed(self.principal, row)
        return Response({"resumed": resumed, "left": left})
