"""REST of the gateway's open sessions, for administrators: the list and an end."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require_admin
from catalog.api import replies as shared
from catalog.api.views import PAGING, ApiView, page_size
from catalog.selectors.paging import key_of, key_token
from core.errors import InvalidRequest
from gateway import client
from gateway.api import replies

_SCOPE = "sessions"


class SessionsView(ApiView):
    """Sessions over HiveServer2, the oldest first."""

    queries = PAGING | {"user"}

    @extend_schema(responses=shared.page_of(replies.Session))
    def get(self, request: Request) -> Response:
        require_admin(self.principal)
        given = request.query_params
        if given.get("sort", "opened_at") != "opened_at":
            raise InvalidRequest(
                "sessions have one order", code="invalid_sort", hint="opened_at"
            )
        size, after = page_size(request), key_of(given.get("page_token"), _SCOPE)
        found = [
            one
            for one in client.open_sessions()
            if [one["opened_at"], one["id"]] > after
            and given.get("user", one["user"]) == one["user"]
        ]
        last = found[size - 1] if len(found) > size else None
        token = key_token([last["opened_at"], last["id"]], _SCOPE) if last else None
        items = [replies.Session.body(one) for one in found[:size]]
        return Response({"items": items, "next_page_token": token})


class SessionView(ApiView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: str) -> Response:
        """End the session and its statements; audited."""
        require_admin(self.principal)
        client.close_session(str(id))
        return Response(status=204)
