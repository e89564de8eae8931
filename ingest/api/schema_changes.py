"""REST of columns that changed at the source: what waits for approval."""

from __future__ import annotations

import dataclasses

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.reply import Reply
from catalog.api.views import ApiView
from ingest.api.tables import lake_table_of
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.schema_approval import proposal_of
from ingest.pipelines.transitions import locked_pipeline, pipeline_of


class SchemaProposal(Reply):
    """What changed at the source of a lake table and waits for a decision."""

    table = s.IntegerField()
    schema_changes = s.CharField(help_text="the policy: follow, ask or ignore")
    changes = s.ListField(child=s.CharField(), help_text="empty: nothing waits")
    will = s.ListField(
        child=s.CharField(), help_text="what approving does; or why it cannot be"
    )
    is_possible = s.BooleanField()
    needs_resync = s.BooleanField()
    left_out = s.ListField(
        child=s.CharField(), help_text="columns at the source that are not synced"
    )
    partial_columns = s.CharField(
        help_text="columns whose older rows are NULL in the lake; empty when none is"
    )
    resync_needed = s.CharField(
        help_text="why only a resync makes its rows right; empty when none is needed"
    )


class SchemaChangeView(ApiView):
    """What changed at the source of a lake table, and what approving it would do."""

    @extend_schema(responses=SchemaProposal)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        pipeline = pipeline_of(table.pk) or locked_pipeline(table)
        body = {
            "table": table.pk,
            "schema_changes": policy_of(pipeline).schema_changes,
            **dataclasses.asdict(proposal_of(table)),
        }
        return Response(SchemaProposal.body(body))
