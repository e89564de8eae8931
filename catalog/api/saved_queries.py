"""REST of saved queries: one's own, and those that others share."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import saved_queries
from catalog.api.etag import content_tag, require_match, tagged
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.reply import Instant, Reply
from catalog.api.serializers import Patch
from catalog.api.views import PAGING, ApiView, body_of, created, paged
from catalog.models import SavedQuery

# Each may have 100,000 characters.
MOST_LISTED = 100


class SavedQueryReply(Reply):
    id = s.IntegerField()
    name = s.CharField()
    sql = s.CharField()
    is_shared = s.BooleanField()
    owner = s.CharField(source="owner.username")
    created_at = Instant()
    updated_at = Instant()


class SavedQueryNew(s.Serializer[Any]):
    name = s.CharField(max_length=saved_queries.LONGEST_NAME)
    sql = s.CharField(max_length=saved_queries.LONGEST_SQL, trim_whitespace=False)
    is_shared = s.BooleanField(required=False)


class SavedQueryChange(Patch, SavedQueryNew):
    pass


class SavedQueriesView(ApiView):
    queries = PAGING

    @extend_schema(responses=page_of(SavedQueryReply))
    def get(self, request: Request) -> Response:
        """Your saved queries, and those that others share."""
        rows = saved_queries.queries_for(self.principal)
        return paged(
            request,
            rows,
            sorts={"name": ("name", "id")},
            body=SavedQueryReply.body,
            largest=MOST_LISTED,
        )

    @extend_schema(request=SavedQueryNew, responses={201: SavedQueryReply})
    @idempotent
    def post(self, request: Request) -> Response:
        """Save a statement under a name, for yourself or for all users."""
        given = body_of(SavedQueryNew, request)
        row = saved_queries.save_query(self.principal, **given)
        return created(f"saved-queries/{row.pk}", SavedQueryReply.body(row))


class SavedQueryView(ApiView):
    is_versioned = True

    @extend_schema(responses=SavedQueryReply)
    def get(self, request: Request, id: int) -> Response:
        """One saved query."""
        row = saved_queries.query_for(self.principal, id)
        return tagged(request, SavedQueryReply.body(row), _tag(row))

    @extend_schema(request=SavedQueryChange, responses=SavedQueryReply)
    def patch(self, request: Request, id: int) -> Response:
        """Change its name, its statement, or whether it is shared. For its owner."""
        given = body_of(SavedQueryChange, request)
        with transaction.atomic():
            require_match(request, _tag(saved_queries.locked_query(self.principal, id)))
            row = saved_queries.change_query(self.principal, id, given)
        return tagged(request, SavedQueryReply.body(row), _tag(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: int) -> Response:
        """Throw it away. For its owner."""
        saved_queries.delete_query(self.principal, id)
        return Response(status=204)


def _tag(row: SavedQuery) -> str:
    return content_tag({"name": row.name, "sql": row.sql, "is_shared": row.is_shared})
