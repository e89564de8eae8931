"""REST of grants: list, give, take back, and what a user may do by which of them.

For administrators, except that every user sees the own grants and rights.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import effective, existence, grants
from catalog.access.enforcement import require_admin
from catalog.access.policy import Privilege, Role
from catalog.api import access_replies as replies
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.serializers import GrantNew
from catalog.api.views import PAGING, AdminView, ApiView, body_of, created, paged
from catalog.models import Grant
from core.errors import InvalidRequest
from core.sentences import Sentence


class GrantsView(ApiView):
    queries = PAGING | {"principal", "privilege", "role", "on"}

    @extend_schema(responses=page_of(replies.Grant))
    def get(self, request: Request) -> Response:
        """Grants, filtered by principal or object. For administrators."""
        rows = (
            Grant.objects.all()
            if self.principal.is_admin
            else grants.rows_for(self.principal)
        )
        given = request.query_params
        if principal := given.get("principal"):
            kind, _, name = principal.partition(":")
            rows = rows.filter(principal_kind=kind, principal_name=name)
        if privilege := given.get("privilege"):
            rows = rows.filter(privilege=grants.check_privilege(privilege))
        if role := given.get("role"):
            rows = rows.filter(privilege=grants.check_role(role))
        if on := given.get("on"):
            securable = grants.parse_securable(on)
            rows = rows.filter(
                datasource=securable.datasource,
                database=securable.database,
                table=securable.table,
            )
        return paged(request, rows, sorts={"id": ("id",)}, body=replies.Grant.body)

    @extend_schema(request=GrantNew, responses={201: replies.Grant})
    @idempotent
    def post(self, request: Request) -> Response:
        """Give a privilege or a role on a source, a database or a table, or `select` on
        some columns of a table of the lake. For administrators. A name that is not
        there is refused, unless `allow_unknown` says that it will be."""
        require_admin(self.principal)
        given = body_of(GrantNew, request)
        granted = _granted(given)
        if not given.get("allow_unknown"):
            on = grants.parse_securable(given["on"])
            existence.require_known(on)
            existence.require_columns(on, given.get("columns", ()))
        row = grants.grant(
            principal=given["principal"],
            privilege=granted,
            on=given["on"],
            columns=given.get("columns", ()),
            by=self.principal.name,
        )
        return created(f"grants/{row.pk}", replies.Grant.body(row))


def _granted(given: dict[str, Any]) -> Privilege | Role:
    if "role" in given:
        return grants.check_role(given["role"])
    return grants.check_privilege(given["privilege"])


class GrantView(AdminView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: int) -> Response:
        """Take a grant back. It holds from the moment this call returns."""
        grants.revoke(id, by=self.principal.name)
        return Response(status=204)


class EffectiveView(ApiView):
    """What a principal may do on a thing, and by which grants ("granted via").

    `principal` is the caller unless it is given; others are for administrators.
    """

    queries = frozenset({"principal", "on"})

    @extend_schema(responses=replies.EffectiveRights)
    def get(self, request: Request) -> Response:
        if not (on := request.query_params.get("on")):
            raise InvalidRequest(
                Sentence("`on` is missing"),
                hint="on=lake, lake.shop or lake.shop.orders",
            )
        own = f"user:{self.principal.name}"
        asked = request.query_params.get("principal") or own
        if asked not in self.principal.grantees:
            require_admin(self.principal)
        principal = self.principal if asked == own else effective.principal_named(asked)
        securable = grants.parse_securable(on)
        rights = effective.rights_on(principal, securable)
        found = {"on": securable, "privileges": rights}
        shown = {"principal": asked, "who": principal, **found}
        return Response(replies.EffectiveRights.body(shown))
