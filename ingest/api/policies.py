"""REST of policies: settings of a source, a database or a table, and what counts."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.api.etag import content_tag, require_match, tagged
from catalog.api.views import ApiView
from catalog.datasources import require_a_source
from catalog.selectors.tables import database_for, datasource_for
from ingest.api import replies, requests
from ingest.api.tables import lake_table_of
from ingest.api.timetables import timetable_of, timetable_of_pipeline
from ingest.pipelines.policy_levels import Settings, of_source, of_table


class DatasourcePolicyView(ApiView):
    """What all tables of a source inherit."""

    is_versioned = True

    @extend_schema(responses=replies.LevelPolicy)
    def get(self, request: Request, ds: str) -> Response:
        row = datasource_for(self.principal, ds)
        return _shown(request, of_source(row, None))

    @extend_schema(request=requests.PolicyChange, responses=replies.LevelPolicy)
    def patch(self, request: Request, ds: str) -> Response:
        """A merge patch; null takes a setting back."""
        require(self.principal, Privilege.MANAGE, Securable(ds))
        row = datasource_for(self.principal, ds)
        require_a_source(row)
        _change(request, of_source(row, None))
        return _shown(request, of_source(row, None))


class DatabasePolicyView(ApiView):
    """What the tables of a database inherit, before what the source says."""

    is_versioned = True

    @extend_schema(responses=replies.LevelPolicy)
    def get(self, request: Request, ds: str, db: str) -> Response:
        row = database_for(self.principal, ds, db)
        return _shown(request, of_source(row.datasource, row))

    @extend_schema(request=requests.PolicyChange, responses=replies.LevelPolicy)
    def patch(self, request: Request, ds: str, db: str) -> Response:
        """A merge patch; null takes a setting back."""
        require(self.principal, Privilege.MANAGE, Securable(ds, db))
        row = database_for(self.principal, ds, db)
        require_a_source(row.datasource)
        _change(request, of_source(row.datasource, row))
        return _shown(request, of_source(row.datasource, row))


class TablePolicyView(ApiView):
    """What counts for one lake table, and where each value is from."""

    is_versioned = True

    @extend_schema(responses=replies.TablePolicy)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        return _shown(request, of_table(table))

    @extend_schema(request=requests.PolicyChange, responses=replies.TablePolicy)
    def patch(self, request: Request, table_id: int) -> Response:
        """A merge patch; null takes a setting back."""
        table = lake_table_of(self, table_id, Privilege.MANAGE)
        _change(request, of_table(table))
        return _shown(request, of_table(table))


def _change(request: Request, level: Settings) -> None:
    with level.locked() as given:
        require_match(request, content_tag(given))
        level.change(request.data)


def _shown(request: Request, level: Settings) -> Response:
    policy, pipeline, database = level.counts, level.pipeline, level.database
    shown: dict[str, Any] = {"given": level.given, "policy": policy}
    if pipeline is None:
        origin = policy.origins["schedule"]
        body = replies.LevelPolicy.body(
            shown
            | {
                "timetable": timetable_of(policy.schedule, origin=origin),
                "datasource": level.source.name,
                "database": database.name if database else None,
            }
        )
    else:
        body = replies.TablePolicy.body(
            shown
            | {
                "timetable": timetable_of_pipeline(pipeline, policy),
                "table": pipeline.lake_table_id,
                "name": str(pipeline.lake_table),
                "due_at": pipeline.due_at,
            }
        )
    return tagged(request, body, content_tag(level.given))
