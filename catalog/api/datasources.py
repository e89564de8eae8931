"""REST of datasources: list, register, change, remove, test, discover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import datasources as service
from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.api import replies
from catalog.api.etag import etag_of, expected_version
from catalog.api.idempotency import idempotent
from catalog.api.reply import Body
from catalog.api.serializers import DatasourceNew, DatasourcePatch, Empty
from catalog.api.views import PAGING, ApiView, body_of, members_of, paged
from catalog.discovery.services import start_discovery, start_test
from catalog.models import Datasource
from catalog.selectors.contents import without_contents
from catalog.selectors.tables import (
    database_for,
    databases_for,
    datasource_for,
    datasources_for,
)
from catalog.sources.registry import KINDS, kind_named
from core.models import Job

BY_NAME = {"name": ("name", "id")}


class DatasourcesView(ApiView):
    queries = PAGING | {"tag", "owner"}

    @extend_schema(responses=replies.page_of(replies.Datasource))
    def get(self, request: Request) -> Response:
        """The datasources that the caller may see, by name."""
        given = request.query_params
        rows = datasources_for(
            self.principal, tag=given.get("tag", ""), owner=given.get("owner", "")
        )
        shown = without_contents(self.principal)

        def body(row: Datasource) -> Body:
            return replies.Datasource.body(shown(row))

        return paged(request, rows, sorts=BY_NAME, body=body)

    @extend_schema(request=DatasourceNew, responses={201: replies.Datasource})
    @idempotent
    def post(self, request: Request) -> Response:
        """Register a source. Nothing connects yet: test it, then discover it."""
        if isinstance(request.data, Mapping) and "kind" in request.data:
            kind_named(str(request.data["kind"]))
        new = service.NewDatasource(**_owned(body_of(DatasourceNew, request)))
        require_to_register(self, new.name)
        row = service.create_datasource(new, by=self.principal.name)
        return _shown(row, status=201, Location=f"/api/v1/datasources/{row.name}")


def require_to_register(view: ApiView, name: str) -> None:
    """Administrators, and who already holds `manage` on that name."""
    require(view.principal, Privilege.MANAGE, Securable(name))


class KindsView(ApiView):
    """Kinds of sources, each with the JSON schema of its fields."""

    @extend_schema(responses=replies.page_of(replies.KindOf))
    def get(self, request: Request) -> Response:
        kinds = [replies.KindOf.body(kind) for kind in KINDS.values()]
        return Response({"items": kinds, "next_page_token": None})


class DatasourceView(ApiView):
    is_versioned = True

    @extend_schema(responses=replies.Datasource)
    def get(self, request: Request, ds: str) -> Response:
        """One source, with the result of its last connection test."""
        row = datasource_for(self.principal, ds)
        if request.headers.get("If-None-Match") == etag_of(row):
            return Response(status=304, headers={"ETag": etag_of(row)})
        return _shown(without_contents(self.principal)(row))

    @extend_schema(request=DatasourcePatch, responses=replies.Datasource)
    def patch(self, request: Request, ds: str) -> Response:
        """Change a source. Secrets go in and never come out."""
        require(self.principal, Privilege.MANAGE, Securable(ds))
        row = service.update_datasource(
            ds,
            service.DatasourceChange(**_owned(body_of(DatasourcePatch, request))),
            by=self.principal.name,
            expected_version=expected_version(request),
        )
        return _shown(row)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, ds: str) -> Response:
        """Remove a source. Refused while tables of it are onboarded."""
        require(self.principal, Privilege.MANAGE, Securable(ds))
        service.delete_datasource(
            ds, by=self.principal.name, expected_version=expected_version(request)
        )
        return Response(status=204)


class _JobView(ApiView):
    """A verb on a datasource that starts a job."""

    @staticmethod
    def start(datasource: Datasource, by: str) -> Job:
        raise NotImplementedError

    @extend_schema(request=Empty, responses={202: replies.Job})
    @idempotent
    def post(self, request: Request, ds: str) -> Response:
        require(self.principal, Privilege.OPERATE, Securable(ds))
        row = datasource_for(self.principal, ds)
        service.require_a_source(row)
        members_of(request)
        return accepted(self.start(row, self.principal.name))


class DatasourceTestView(_JobView):
    """Test the connection as a job: each step with its result and what is missing."""

    @staticmethod
    def start(datasource: Datasource, by: str) -> Job:
        return start_test(datasource, by=by)


class DatasourceDiscoverView(_JobView):
    """Read what exists at the source as a job: tables, columns, keys, sizes. Reads no
    rows."""

    @staticmethod
    def start(datasource: Datasource, by: str) -> Job:
        return start_discovery(datasource, by=by)


class DatabasesView(ApiView):
    """The databases of a source (of PostgreSQL its schemas), by name."""

    queries = PAGING

    @extend_schema(responses=replies.page_of(replies.Database))
    def get(self, request: Request, ds: str) -> Response:
        datasource_for(self.principal, ds)
        rows = databases_for(self.principal, ds)
        return paged(request, rows, sorts=BY_NAME, body=replies.Database.body)


class DatabaseView(ApiView):
    """One database of a source."""

    @extend_schema(responses=replies.Database)
    def get(self, request: Request, ds: str, db: str) -> Response:
        return Response(replies.Database.body(database_for(self.principal, ds, db)))


def accepted(job: Job) -> Response:
    """202 with the job and where to look at it."""
    return Response(
        replies.Job.body(job),
        status=202,
        headers={"Location": f"/api/v1/jobs/{job.pk}", "Retry-After": "1"},
    )


def _owned(given: dict[str, Any]) -> dict[str, Any]:
    """null is "" to services: nobody."""
    return given | {"owner": given["owner"] or ""} if "owner" in given else given


def _shown(row: Datasource, *, status: int = 200, **headers: str) -> Response:
    return Response(
        replies.Datasource.body(row),
        status=status,
        headers={"ETag": etag_of(row), **headers},
    )
