"""REST verb `:compact`. `dry_run` previews it; else a job is queued."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.idempotency import idempotent
from catalog.api.views import ApiView, members_of
from ingest.api import replies
from ingest.api.repairs import PREVIEWED, preview_body
from ingest.api.tables import accepted, lake_table_of
from ingest.maintenance import compaction_drivers
from ingest.maintenance.impact_preview import preview_compaction
from ingest.pipelines import table_commands
from ingest.pipelines.requests import flag


class CompactView(ApiView):
    """Compact the table now, in the driver that its policy says; or with
    `{"driver": "own", "memory": "4g", "cores": 4}` in one of its own."""

    @extend_schema(request=replies.CompactionNew, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.OPERATE)
        body = members_of(request, ("dry_run", *compaction_drivers.WISHES))
        is_dry = flag(body, "dry_run")
        wish = compaction_drivers.parse_wish(body)
        if is_dry:
            return Response(preview_body(preview_compaction(table, wish)))
        job = table_commands.start_compaction(
            table, actor=self.principal.name, wish=wish
        )
        return accepted(job)
