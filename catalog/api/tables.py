"""REST look-ups of tables: by id, by name, by path, by search; and their columns.

Verbs on tables (sync, pause, …) belong to ingest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require
from catalog.access.policy import Principal, Privilege, Securable
from catalog.api import replies
from catalog.api.etag import content_tag, require_match
from catalog.api.reply import Body
from catalog.api.serializers import TablePatch
from catalog.api.views import PAGING, ApiView, body_of, page_size, paged
from catalog.extensions import registered
from catalog.labels import Labels, label_locked, lock_tables
from catalog.models import Table
from catalog.selectors.facts import (
    TableFacts,
    facts_at,
    facts_by_ids,
    facts_for,
    facts_named,
)
from catalog.selectors.history import schema_steps, schema_versions
from catalog.selectors.paging import offset_of, offset_token
from catalog.selectors.search import Hit, search_tables
from catalog.selectors.tables import TableFilter, database_for, tables_for
from core.errors import InvalidRequest, NotFound

SORTS = {"name": ("name", "id"), "id": ("id",)}
FILTERS = frozenset({"status", "kind", "tag", "owner"})


class TablesView(ApiView):
    """Find tables: `?name=` resolves one name; `?q=` searches, best first; the rest
    filters.

    With `sort`, `q` only filters: names that contain it, in that order.
    """

    queries = PAGING | FILTERS | {"name", "q", "datasource", "database"}

    @extend_schema(responses=replies.page_of(replies.FoundTable))
    def get(self, request: Request) -> Response:
        given = request.query_params
        if "name" not in given:
            return _listed(self, request, given.get("datasource", ""), "")
        if "q" in given:
            raise InvalidRequest("give either name or q, not both")
        table = facts_named(self.principal, given["name"])
        return Response({"items": [_unmatched(table)], "next_page_token": None})


class TableView(ApiView):
    is_versioned = True

    @extend_schema(responses=replies.TableDetail)
    def get(self, request: Request, **place: Any) -> Response:
        """A table with columns, key, state and last commit. Its ETag is of owner and
        tags alone, which can be set: it is no sign that the rest is the same."""
        body = _detail(self.principal, facts_for(self.principal, place["id"]))
        return Response(body, headers={"ETag": f"W/{_tag(body)}"})

    @extend_schema(request=TablePatch, responses=replies.TableDetail)
    def patch(self, request: Request, **place: Any) -> Response:
        """Set who answers for a table and the tags that it is found by. Neither gives
        a right. Takes `manage`."""
        table = facts_for(self.principal, place["id"])
        on = Securable(table.datasource, table.database, table.name)
        require(self.principal, Privilege.MANAGE, on)
        given = body_of(TablePatch, request)
        owner = given["owner"] or "" if "owner" in given else None
        labels = Labels(owner=owner, tags=given.get("tags"))
        with transaction.atomic():
            rows = lock_tables([table.id])
            now = replies.Table.body(facts_for(self.principal, table.id))
            require_match(request, _tag(now))
            label_locked(rows, labels, by=self.principal.name)
        return self.get(request, **place)


def _tag(body: Mapping[str, Any]) -> str:
    return content_tag({"owner": body["owner"], "tags": body["tags"]})


class TableSchemaView(ApiView):
    """The columns now, or those of an earlier `?version=`."""

    queries = frozenset({"version"})

    @extend_schema(responses=replies.TableSchema)
    def get(self, request: Request, **place: Any) -> Response:
        table = facts_for(self.principal, place["id"])
        asked = request.query_params.get("version")
        if asked is None:
            return Response(replies.TableSchema.now(table))
        is_number = asked.isascii() and asked.isdigit() and len(asked) < 10
        rows = schema_versions(table.id)
        found = rows.filter(version=int(asked)).first() if is_number else None
        if found is None:
            raise NotFound(
                "table %(number)s has no schema version '%(asked)s'",
                latest=table.schema_version,
                number=table.id,
                asked=asked,
                code="schema_version_not_found",
                hint="1 to %(latest)s, see schema-history",
            )
        return Response(replies.TableSchema.former(found))


class TableHistoryView(ApiView):
    """What changed in its columns, and when; the newest version first."""

    queries = PAGING

    @extend_schema(responses=replies.page_of(replies.SchemaStep))
    def get(self, request: Request, **place: Any) -> Response:
        table = facts_for(self.principal, place["id"])
        return paged(
            request,
            schema_versions(table.id),
            sorts={"version": ("-version",)},
            body=replies.SchemaStep.body,
            load=schema_steps,
        )


class DatabaseTablesView(ApiView):
    """The tables of one database, with their columns."""

    queries = PAGING | FILTERS | {"name", "q"}

    @extend_schema(responses=replies.page_of(replies.FoundTable))
    def get(self, request: Request, ds: str, db: str) -> Response:
        if name := request.query_params.get("name"):
            table = facts_at(self.principal, ds, db, name)
            return Response({"items": [_unmatched(table)], "next_page_token": None})
        found = _listed(self, request, ds, db)
        if not found.data["items"]:
            database_for(self.principal, ds, db)
        return found


class NamedTableView(ApiView):
    @extend_schema(responses=replies.TableDetail)
    def get(self, request: Request, **place: Any) -> Response:
        """The same by its names instead of its id."""
        names = place["ds"], place["db"], place["table"]
        return Response(_detail(self.principal, facts_at(self.principal, *names)))


def _listed(view: ApiView, request: Request, ds: str, db: str) -> Response:
    given = request.query_params
    wanted = TableFilter(
        datasource=ds,
        database=db or given.get("database", ""),
        status=given.get("status", ""),
        kind=given.get("kind", ""),
        q=given.get("q", ""),
        tag=given.get("tag", "").lower(),  # as tags are kept
        owner=given.get("owner", ""),
    )
    if wanted.q and "sort" not in given:
        return _searched(view.principal, request, wanted)
    rows = tables_for(view.principal, wanted)
    load = facts_by_ids
    return paged(request, rows, sorts=SORTS, body=_unmatched, load=load)


def _searched(principal: Principal, request: Request, wanted: TableFilter) -> Response:
    """The best matches, each with what matched. Goes on by count, not by key."""
    size, order = page_size(request), f"search:{wanted}"
    offset = offset_of(request.query_params.get("page_token"), order)
    hits = search_tables(principal, wanted, limit=size, offset=offset)
    how = {hit.table_id: hit for hit in hits.items}
    rows = facts_by_ids(list(how))
    return Response(
        {
            "items": [_matched(row, how[row.id]) for row in rows],
            "next_page_token": offset_token(offset + size, order)
            if hits.has_more
            else None,
        }
    )


def _detail(principal: Principal, row: TableFacts) -> Body:
    is_lake = row.kind == Table.LAKE
    on = Securable(row.datasource, row.database, row.name)
    actions = registered.actions_of(principal, row.id, on) if is_lake else []
    shown = [replies.ActionOfTable.body(action) for action in actions]
    return replies.Table.body(row) | {"table_actions": shown}


def _matched(row: TableFacts, hit: Hit) -> Body:
    body = replies.Table.body(row)
    return body | {"match": {"field": hit.field, "text": hit.text}}


def _unmatched(row: TableFacts) -> Body:
    return replies.Table.body(row) | {"match": None}
