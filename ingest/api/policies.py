"""REST of policies: settings of a source, a database or a table, and what counts."""

from __future__ import annotations

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.api.etag import content_tag, require_match, tagged
from catalog.api.reply import Body
from catalog.api.views import ApiView
from catalog.datasources import require_a_source
from catalog.models import Database, Datasource
from catalog.selectors.tables import database_for, datasource_for
from ingest.api import replies, requests
from ingest.api.tables import lake_table_of
from ingest.api.timetables import timetable_of, timetable_of_pipeline
from ingest.models import Pipeline
from ingest.pipelines.policies import store
from ingest.pipelines.transitions import locked_pipeline, pipeline_of


class DatasourcePolicyView(ApiView):
    """What all tables of a source inherit."""

    is_versioned = True

    @extend_schema(responses=replies.LevelPolicy)
    def get(self, request: Request, ds: str) -> Response:
        row = datasource_for(self.principal, ds)
        return _level(request, row, None)

    @extend_schema(request=requests.PolicyChange, responses=replies.LevelPolicy)
    def patch(self, request: Request, ds: str) -> Response:
        """A merge patch; null takes a setting back."""
        require(self.principal, Privilege.MANAGE, Securable(ds))
        row = datasource_for(self.principal, ds)
        return _change(request, row, None)


class DatabasePolicyView(ApiView):
    """What the tables of a database inherit, before what the source says."""

    is_versioned = True

    @extend_schema(responses=replies.LevelPolicy)
    def get(self, request: Request, ds: str, db: str) -> Response:
        row = database_for(self.principal, ds, db)
        return _level(request, row.datasource, row)

    @extend_schema(request=requests.PolicyChange, responses=replies.LevelPolicy)
    def patch(self, request: Request, ds: str, db: str) -> Response:
        """A merge patch; null takes a setting back."""
        require(self.principal, Privilege.MANAGE, Securable(ds, db))
        row = database_for(self.principal, ds, db)
        return _change(request, row.datasource, row)


class TablePolicyView(ApiView):
    """What counts for one lake table, and where each value is from."""

    is_versioned = True

    @extend_schema(responses=replies.TablePolicy)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        pipeline = pipeline_of(table.pk) or locked_pipeline(table)
        return tagged(request, _table_body(pipeline), content_tag(pipeline.policy))

    @extend_schema(request=requests.PolicyChange, responses=replies.TablePolicy)
    def patch(self, request: Request, table_id: int) -> Response:
        """A merge patch; null takes a setting back."""
        table = lake_table_of(self, table_id, Privilege.MANAGE)
        pipeline = pipeline_of(table.pk) or locked_pipeline(table)
        with transaction.atomic():
            held = Pipeline.objects.select_for_update().get(pk=pipeline.pk)
            require_match(request, content_tag(held.policy))
            store.change_table_policy(pipeline, request.data)
            audit.record("policy.change", on=str(table), change=request.data)
        return tagged(request, _table_body(pipeline), content_tag(pipeline.policy))


def _change(
    request: Request, source: Datasource, database: Database | None
) -> Response:
    require_a_source(source)
    on = f"{source.name}.{database.name}" if database else source.name
    with transaction.atomic():
        # as `change_policy` locks it
        Datasource.objects.select_for_update().get(pk=source.pk)
        require_match(request, content_tag(store.given_at(source, database)))
        store.change_policy(source, database, request.data)
        audit.record("policy.change", on=on, change=request.data)
    return _level(request, source, database)


def _level(request: Request, source: Datasource, database: Database | None) -> Response:
    tag = content_tag(store.given_at(source, database))
    return tagged(request, _level_body(source, database), tag)


def _level_body(source: Datasource, database: Database | None) -> Body:
    policies = store.Policies([source.pk])
    policy = (
        policies.of_datasource(source)
        if database is None
        else policies.of_database(database)
    )
    shown = {
        "given": store.given_at(source, database),
        "policy": policy,
        "timetable": timetable_of(policy.schedule, origin=policy.origins["schedule"]),
        "datasource": source.name,
        "database": database.name if database else None,
    }
    return replies.LevelPolicy.body(shown)


def _table_body(pipeline: Pipeline) -> Body:
    policy = store.policy_of(pipeline)
    shown = {
        "given": pipeline.policy,
        "policy": policy,
        "timetable": timetable_of_pipeline(pipeline, policy),
        "table": pipeline.lake_table_id,
        "name": str(pipeline.lake_table),
        "due_at": pipeline.due_at,
    }
    return replies.TablePolicy.body(shown)
