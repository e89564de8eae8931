"""REST of rules on rows and columns. For administrators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import grants, rules
from catalog.access.effective import explained, for_the_bound, principal_named
from catalog.access.enforcement import require_admin
from catalog.access.table_rights import EVERYONE
from catalog.api.access_replies import Explained, Rule
from catalog.api.etag import content_tag, require_match, tagged
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.serializers import RuleChange, RuleNew
from catalog.api.views import PAGING, AdminView, ApiView, body_of, created, paged
from catalog.models import AccessRule
from core.errors import InvalidRequest

_MEMBERS = {"except": "excepted"}


class RulesView(AdminView):
    queries = PAGING | {"on"}

    @extend_schema(responses=page_of(Rule))
    def get(self, request: Request) -> Response:
        """Row filters and column masks, optionally those on one table. For
        administrators."""
        rows = AccessRule.objects.all()
        if on := request.query_params.get("on"):
            table = grants.parse_securable(on)
            rows = rows.filter(
                datasource=table.datasource, database=table.database, table=table.table
            )
        return paged(request, rows, sorts={"id": ("id",)}, body=Rule.body)

    @extend_schema(request=RuleNew, responses={201: Rule})
    @idempotent
    def post(self, request: Request) -> Response:
        """Keep rows or values of a table of the lake back from those to whom the rule
        applies, administrators too unless they are excepted. For administrators. 409
        `two_masks` when somebody would have two masks of one column."""
        given = _named(body_of(RuleNew, request))
        allow_unknown = given.pop("allow_unknown", False)
        row = rules.save_rule(
            rules.Stated(**given),
            by=self.principal.name,
            allow_unknown=allow_unknown,
        )
        return created(f"rules/{row.pk}", Rule.body(row))


class RuleView(AdminView):
    is_versioned = True

    @extend_schema(responses=Rule)
    def get(self, request: Request, id: int) -> Response:
        """One rule. For administrators."""
        row = rules.rule_of(id)
        return tagged(request, Rule.body(row), _tag(row))

    @extend_schema(request=RuleChange, responses=Rule)
    def patch(self, request: Request, id: int) -> Response:
        """Change whom it binds, its mask or its expression. For administrators."""
        given = _named(body_of(RuleChange, request))
        with transaction.atomic():
            row = rules.rule_of(id)
            require_match(request, _tag(row))
            row = rules.save_rule(
                replace(rules.stated_as(row), **given),
                by=self.principal.name,
                rule_id=id,
                allow_unknown=True,
            )
        return tagged(request, Rule.body(row), _tag(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: int) -> Response:
        """Remove a rule: what it kept back is open from now on. For administrators."""
        rules.remove_rule(id, by=self.principal.name)
        return Response(status=204)


class ExplainView(ApiView):
    """What a principal may do on a table and what they see of it, and by which grants
    and rules.

    `principal` is the caller unless it is given; others, and the expressions of rules,
    whom else they name and those on what the caller may not see, are for
    administrators.
    """

    queries = frozenset({"principal", "on"})

    @extend_schema(responses=Explained)
    def get(self, request: Request) -> Response:
        if not (on := request.query_params.get("on")):
            raise InvalidRequest("`on` is missing", hint="on=lake.shop.orders")
        own = f"user:{self.principal.name}"
        asked = request.query_params.get("principal") or own
        if asked != own:
            require_admin(self.principal)
        principal = self.principal if asked == own else principal_named(asked)
        found = explained(principal, grants.parse_securable(on))
        if not self.principal.is_admin:
            found = for_the_bound(found)
        shown = {"on": found.on, "privileges": found.privileges, "found": found}
        body = Explained.body({"principal": asked, "who": principal, **shown})
        if not self.principal.is_admin:
            for rule in (*body["filters"], *body["masks"]):
                rule["expression"] = None
                named = principal.grantees | {EVERYONE}
                rule["applies_to"] = sorted(named.intersection(rule["applies_to"]))
                rule["except"] = []
        return Response(body)


def _named(given: dict[str, Any]) -> dict[str, Any]:
    return {_MEMBERS.get(name, name): value for name, value in given.items()}


def _tag(row: AccessRule) -> str:
    return content_tag(Rule.body(row))
