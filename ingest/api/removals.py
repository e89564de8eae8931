"""REST of removing several tables at once; of one it is an action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.idempotency import idempotent
from catalog.api.reply import Reply, Texts
from catalog.api.serializers import Flag, Items, OneOf, Whole
from catalog.api.views import ApiView, body_of
from catalog.models import Table
from core.errors import SluiceError
from core.models import Job
from core.sentences import Sentence
from ingest.actions import registry
from ingest.api.replies import OutcomeForOne
from ingest.api.tables import lake_table_of
from ingest.maintenance.impact_on_many import removals_of
from ingest.pipelines.table_commands import not_now
from ingest.pipelines.transitions import pipeline_of

REMOVE = registry.ACTIONS["remove"]
MOST_AT_ONCE = 500


class RemovalsNew(s.Serializer[object]):
    tables = Items(child=Whole(min_value=1), min_length=1, max_length=MOST_AT_ONCE)
    data: Any = OneOf(["keep", "drop"], required=False)
    dry_run = Flag(required=False)


@dataclass(frozen=True, slots=True)
class Removed:
    """will: of a preview. Else its job; or why not."""

    table: Table
    will: Sequence[str] = ()
    job: Job | None = None
    error: SluiceError | None = None


class RemovalOfOne(OutcomeForOne):
    """What happens to one of the tables, by its last check; or its job; or why not."""

    will = Texts(help_text="of a preview")


class Removals(Reply):
    items = RemovalOfOne(many=True)


class RemoveTablesView(ApiView):
    """Stop syncing several tables for good, each by itself. `"data": "drop"` deletes
    their data. Tables that may not be managed refuse the whole request."""

    @extend_schema(request=RemovalsNew, responses=Removals)
    @idempotent
    def post(self, request: Request) -> Response:
        given = body_of(RemovalsNew, request)
        asked = dict.fromkeys(given.pop("tables"))
        tables = [lake_table_of(self, pk, Privilege.MANAGE) for pk in asked]
        if given.pop("dry_run", False):
            will = removals_of(tables)
            done = [_refused(one) or Removed(one, will[one.pk]) for one in tables]
        else:
            by = self.principal.name
            done = [_refused(one) or _removed(one, given, actor=by) for one in tables]
        return Response({"items": [RemovalOfOne.body(one) for one in done]})


def _refused(table: Table) -> Removed | None:
    pipeline = pipeline_of(table.pk)
    if pipeline is None or REMOVE.is_offered_to(pipeline):
        return None
    return Removed(table, error=not_now(pipeline, Sentence("remove")))


def _removed(table: Table, given: Mapping[str, str], *, actor: str) -> Removed:
    try:
        job = registry.start(REMOVE, table, actor=actor, given=given)
    except SluiceError as error:
        return Removed(table, error=error)
    assert isinstance(job, Job)
    return Removed(table, job=job)
