"""REST of columns that changed at the source: what waits for approval."""

from __future__ import annotations

import dataclasses

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.reply import Reply, Texts, of
from catalog.api.serializers import Flag, Items, Whole
from catalog.api.views import ApiView, body_of
from catalog.models import Table
from catalog.selectors.tables import TableFilter, tables_for
from ingest.api.replies import OutcomeForOne
from ingest.api.tables import lake_table_of
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.schema_approval import (
    MOST_AT_ONCE,
    approve_many,
    proposal_of,
    undecided,
)
from ingest.pipelines.transitions import locked_pipeline, pipeline_of
from ingest.planning.drift import Aside


class ShardMatter(Reply):
    """Source tables of a sharded table that came, that are not read, or that are gone
    while the lake has their rows."""

    code = s.ChoiceField(choices=("shards_gone", "shards_not_read", "shards_unread"))
    message = s.CharField()
    hint = s.CharField()
    repair = s.CharField(help_text="the action that mends it")
    names = Texts()


class SchemaProposal(Reply):
    """What changed at the source of a lake table and waits for a decision."""

    table = s.IntegerField()
    schema_changes = s.CharField(help_text="the policy: follow, ask or ignore")
    changes = Texts(
        help_text="those that wait for a decision, then those that came with them and"
        " are followed already; empty: nothing waits"
    )
    will = Texts(help_text="what approving does; or why it cannot be")
    choices = s.DictField(
        child=s.ChoiceField(choices=("keep_null", "leave_out")),
        help_text="column at the source: how it can be set aside instead",
    )
    is_possible = s.BooleanField()
    needs_resync = s.BooleanField()
    left_out = Texts(help_text="columns at the source that are not synced")
    kept = Texts(
        help_text="lake columns that are not read any more: NULL in rows that changed"
        " since"
    )
    partial_columns = s.CharField(
        help_text="columns whose older rows are NULL in the lake; empty when none is"
    )
    resync_needed = s.CharField(
        help_text="why only a resync makes its rows right; empty when none is needed"
    )
    replaced = s.CharField(
        help_text="what took the place of the source table, until it is verified; or"
        " empty"
    )
    shards = ShardMatter(
        many=True,
        help_text="what to know of the source tables of a sharded table, the one"
        " that matters most first",
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


class UndecidedTable(Reply):
    """A table whose columns wait for a decision."""

    table = s.IntegerField(source="table.pk")
    name = of(s.CharField(), lambda row: str(row.table))
    changes = Texts(source="proposal.changes")
    choices = s.DictField(child=s.CharField(), source="proposal.choices")
    is_possible = s.BooleanField(source="proposal.is_possible")
    needs_resync = s.BooleanField(source="proposal.needs_resync")


class SchemaChangesView(ApiView):
    """Tables whose columns changed at the source and wait for a decision, the first
    500 by name."""

    @extend_schema(responses=page_of(UndecidedTable))
    def get(self, request: Request) -> Response:
        lake = TableFilter(kind=Table.LAKE)
        found = undecided(tables_for(self.principal, lake))
        items = [UndecidedTable.body(one) for one in found]
        return Response({"items": items, "next_page_token": None})


class SchemaApprovals(s.Serializer[object]):
    """keep_null, leave_out: for every column for which that can be chosen."""

    tables = Items(child=Whole(min_value=1), min_length=1, max_length=MOST_AT_ONCE)
    keep_null = Flag(required=False)
    leave_out = Flag(required=False)


class SchemaDecision(OutcomeForOne):
    """What approving came to for one table: its job, or why not."""


class SchemaDecisions(Reply):
    items = SchemaDecision(many=True)


class ApproveSchemaChangesView(ApiView):
    """Approve the changed columns of several tables, each by itself. Tables that may
    not be operated refuse the whole request."""

    @extend_schema(request=SchemaApprovals, responses=SchemaDecisions)
    @idempotent
    def post(self, request: Request) -> Response:
        asked = body_of(SchemaApprovals, request)
        ways: tuple[Aside, ...] = ("keep_null", "leave_out")
        tables = [
            lake_table_of(self, pk, Privilege.OPERATE)
            for pk in dict.fromkeys(asked["tables"])
        ]
        done = approve_many(
            tables,
            actor=self.principal.name,
            set_aside=[way for way in ways if asked.get(way)],
        )
        return Response({"items": [SchemaDecision.body(one) for one in done]})
