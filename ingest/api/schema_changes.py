"""REST of columns that changed at the source: what waits for approval."""

from __future__ import annotations

import dataclasses

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.views import ApiView
from ingest.api import replies
from ingest.api.tables import lake_table_of
from ingest.pipelines.schema_approval import proposal_of
from ingest.pipelines.transitions import locked_pipeline, pipeline_of
from ingest.policies.effective import policy_of


class SchemaChangeView(ApiView):
    """What changed at the source of a lake table, and what approving it would do."""

    @extend_schema(responses=replies.SchemaProposal)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        pipeline = pipeline_of(table.pk) or locked_pipeline(table)
        body = {
            "table": table.pk,
            "schema_changes": policy_of(pipeline).schema_changes,
            **dataclasses.asdict(proposal_of(table)),
        }
        return Response(body)
