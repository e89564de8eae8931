"""REST of invitations and groups. For administrators."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, OuterRef, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import groups, invitations
from catalog.api import access_replies as replies
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.serializers import InvitationNew
from catalog.api.views import PAGING, AdminView, body_of, created, paged

MOST_MEMBERS = 100


class InvitationsView(AdminView):
    queries = PAGING

    @extend_schema(responses=page_of(replies.Invitation))
    def get(self, request: Request) -> Response:
        """Invitations whose link still works, by name, without the links. For
        administrators."""
        rows = invitations.open_invitations().prefetch_related("groups")
        by_name = {"name": ("name", "id")}
        return paged(request, rows, sorts=by_name, body=replies.Invitation.body)

    @extend_schema(request=InvitationNew, responses={201: replies.InvitationOnce})
    @idempotent
    def post(self, request: Request) -> Response:
        """Invite somebody: `path` of this reply, below the address of the pages, lets
        one person set the password of a new user of that name, once. A former
        invitation of that name ends. For administrators."""
        given = body_of(InvitationNew, request)
        made = invitations.invite(
            given["name"],
            groups=given["groups"],
            days=given["expires_in_days"],
            by=self.account,
        )
        base = settings.SLUICE_PUBLIC_URL
        link = {"path": made.path, "url": f"{base}{made.path}" if base else None}
        body = replies.Invitation.body(made.row) | link
        return created(f"invitations/{made.row.pk}", body)


class InvitationView(AdminView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: int) -> Response:
        """Withdraw an invitation: its link ends. For administrators."""
        invitations.withdraw(id, by=self.principal.name)
        return Response(status=204)


class GroupsView(AdminView):
    queries = PAGING | {"q"}

    @extend_schema(responses=page_of(replies.Group))
    def get(self, request: Request) -> Response:
        """Groups, by name, with the first of their members. For administrators."""
        rows = _groups()
        if q := request.query_params.get("q"):
            rows = rows.filter(name__istartswith=q)
        by_name = {"name": ("name", "id")}
        return paged(request, rows, sorts=by_name, body=replies.Group.body)


class GroupView(AdminView):
    @extend_schema(responses=replies.Group)
    def get(self, request: Request, name: str) -> Response:
        """One group with the first of its members. For administrators."""
        row = groups.group_named(name, _groups())
        return Response(replies.Group.body(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete a group with the grants to it; its members stay users. Refused while
        rules name it. For administrators."""
        groups.delete_group(name, by=self.principal.name)
        return Response(status=204)


def _groups() -> QuerySet[Group, Any]:
    """With the first of their members, by name, and the number of all."""
    members = User.objects.filter(groups=OuterRef("pk")).order_by("username")
    names = ArraySubquery(members.values("username")[:MOST_MEMBERS])
    return Group.objects.annotate(first_members=names, member_count=Count("user"))
