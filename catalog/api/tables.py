"""REST look-ups of tables: by id, by name, by path, by search; and their columns.

Verbs on tables (sync, pause, …) belong to ingest.
"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import selectors
from catalog.api import replies
from catalog.api.bodies import schema_body, table_body
from catalog.api.views import PAGING, ApiView, paged
from core.errors import InvalidRequest

SORTS = {"name": ("name", "id"), "id": ("id",)}
FILTERS = frozenset({"status", "kind"})


class TablesView(ApiView):
    """`?name=` resolves one name; `?q=` searches; the rest filters."""

    queries = PAGING | FILTERS | {"name", "q", "datasource", "database"}

    @extend_schema(responses=replies.page_of(replies.Table))
    def get(self, request: Request) -> Response:
        given = request.query_params
        if "name" not in given:
            return _listed(self, request, given.get("datasource", ""), "")
        if "q" in given:
            raise InvalidRequest("give either name or q, not both")
        table = selectors.table_named(self.principal, given["name"])
        return Response({"items": [table_body(table)], "next_page_token": None})


class TableView(ApiView):
    @extend_schema(responses=replies.Table)
    def get(self, request: Request, id: int) -> Response:
        return Response(table_body(selectors.table_for(self.principal, id)))


class TableSchemaView(ApiView):
    @extend_schema(responses=replies.TableSchema)
    def get(self, request: Request, id: int) -> Response:
        return Response(schema_body(selectors.table_for(self.principal, id)))


class DatabaseTablesView(ApiView):
    queries = PAGING | FILTERS | {"name", "q"}

    @extend_schema(responses=replies.page_of(replies.Table))
    def get(self, request: Request, ds: str, db: str) -> Response:
        if name := request.query_params.get("name"):
            table = selectors.table_at(self.principal, ds, db, name)
            return Response({"items": [table_body(table)], "next_page_token": None})
        selectors.database_for(self.principal, ds, db)
        return _listed(self, request, ds, db)


class NamedTableView(ApiView):
    @extend_schema(responses=replies.Table)
    def get(self, request: Request, ds: str, db: str, table: str) -> Response:
        return Response(table_body(selectors.table_at(self.principal, ds, db, table)))


def _listed(view: ApiView, request: Request, ds: str, db: str) -> Response:
    given = request.query_params
    wanted = selectors.TableFilter(
        datasource=ds,
        database=db or given.get("database", ""),
        status=given.get("status", ""),
        kind=given.get("kind", ""),
        q=given.get("q", ""),
    )
    rows = selectors.tables_for(view.principal, wanted)
    return paged(request, rows, sorts=SORTS, body=table_body)
