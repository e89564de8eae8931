"""The base of views of one table: a plain GET by token takes one statement and no DRF.

Parsing, negotiation and dispatch of the framework cost more than the look-up itself.
Whatever is unusual about a request, a refusal too, goes the usual way, which alone
decides it.
"""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import selectors
from catalog.api.bodies import Body
from catalog.api.views import ApiView, is_storable
from core.context import name_actor

_ANY_JSON = frozenset({"", "*/*", "application/json"})
_SCHEME = "Bearer "


class TableLookupView(ApiView):
    """GET says `body` of the table at `where`, by either way the same."""

    def where(self, **place: Any) -> selectors.Where:
        """Which table the address names."""
        raise NotImplementedError

    def body(self, table: selectors.TableFacts) -> Body:
        raise NotImplementedError

    def get(self, request: Request, **place: Any) -> Response:
        found = selectors.facts_where(self.principal, self.where(**place))
        return Response(self.body(found))

    def dispatch(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        quick = self._quickly(request, kwargs) if _is_plain(request) else None
        return quick or super().dispatch(request, *args, **kwargs)

    def _quickly(
        self, request: HttpRequest, place: dict[str, Any]
    ) -> HttpResponse | None:
        token = request.META["HTTP_AUTHORIZATION"][len(_SCHEME) :].strip()
        try:
            found = selectors.owned_facts(token, self.where(**place))
        except DatabaseError:
            return None
        if found is None:
            return None
        user, table = found
        name_actor(user.name)
        text = JSONRenderer().render(self.body(table))
        allowed = {"Allow": ", ".join(self.allowed_methods)}
        return HttpResponse(text, content_type="application/json", headers=allowed)


def _is_plain(request: HttpRequest) -> bool:
    given = request.META
    return (
        request.method == "GET"
        and str(given.get("HTTP_AUTHORIZATION", "")).startswith(_SCHEME)
        and given.get("HTTP_ACCEPT", "") in _ANY_JSON
        and not given.get("QUERY_STRING")
        and given.get("CONTENT_LENGTH", "") in ("", "0")
        and is_storable(request.path)
    )
