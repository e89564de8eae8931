"""REST of what a user sees of a table, for administrators."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require_admin
from catalog.api.views import ApiView
from core.errors import InvalidRequest
from ingest.api import replies
from ingest.api.tables import sample_limit
from ingest.pipelines.sampling import preview_for


class AccessPreviewView(ApiView):
    """Some rows of a table of the lake as a user sees them: their rows, their columns,
    their masks. For administrators; it is in the audit."""

    queries = frozenset({"principal", "on", "limit"})

    @extend_schema(responses=replies.Sample)
    def get(self, request: Request) -> Response:
        require_admin(self.principal)
        given = request.query_params
        if not given.get("on"):
            raise InvalidRequest("`on` is missing", hint="on=lake.shop.orders")
        sample = preview_for(
            given.get("principal") or f"user:{self.principal.name}",
            given["on"],
            by=self.principal.name,
            limit=sample_limit(request),
        )
        columns = [{"name": name, "type": kind} for name, kind in sample.columns]
        return Response(replies.Sample.body({"columns": columns, "rows": sample.rows}))
