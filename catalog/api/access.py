"""REST of users, tokens and the audit trail. For administrators, except
that every user sees and manages own tokens and sees the own user.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import tokens, users
from catalog.access.enforcement import require_admin
from catalog.access.own_password import change_own_password
from catalog.api import access_replies as replies
from catalog.api.etag import content_tag, require_match, tagged
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.serializers import PasswordChange, TokenNew, UserNew, UserPatch
from catalog.api.views import PAGING, AdminView, ApiView, body_of, created, paged, truth
from catalog.models import ApiToken, AuditEntry
from core.errors import NotFound

NEWEST_FIRST = {"id": ("-id",)}


class UsersView(ApiView):
    queries = PAGING | {"is_active", "group", "q"}

    @extend_schema(responses=page_of(replies.User))
    def get(self, request: Request) -> Response:
        """Users, by name; administrators see all, others themselves."""
        rows = _users()
        if not self.principal.is_admin:
            rows = rows.filter(pk=self.account.pk)
        if (is_active := truth(request, "is_active")) is not None:
            rows = rows.filter(is_active=is_active)
        if group := request.query_params.get("group"):
            rows = rows.filter(groups__name=group)
        if q := request.query_params.get("q"):
            rows = rows.filter(username__istartswith=q)
        return paged(
            request, rows, sorts={"name": ("username", "id")}, body=replies.User.body
        )

    @extend_schema(request=UserNew, responses={201: replies.User})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new user with a password and groups; groups exist by being named. For
        administrators."""
        require_admin(self.principal)
        given = body_of(UserNew, request)
        row = users.create_user(
            given["name"],
            given["password"],
            groups=given["groups"],
            is_admin=given["is_admin"],
            by=self.principal.name,
        )
        return created(f"users/{row.username}", replies.User.body(row))


class UserView(ApiView):
    is_versioned = True

    @extend_schema(responses=replies.User)
    def get(self, request: Request, name: str) -> Response:
        """One user: any for administrators, else the caller's own."""
        is_own = name == self.principal.name
        row = _users().filter(username=name).first()
        if row is None or not (is_own or self.principal.is_admin):
            raise NotFound(
                "there is no user '%(name)s'",
                name=name,
                code="user_not_found",
            )
        return tagged(request, replies.User.body(row), _user_tag(row))

    @extend_schema(request=UserPatch, responses=replies.User)
    def patch(self, request: Request, name: str) -> Response:
        """Change a user: password, groups, administrator or not, active or not. Ends
        what they may no longer do."""
        require_admin(self.principal)
        given = body_of(UserPatch, request)
        if "groups" in given:
            given["groups"] = tuple(given["groups"])
        with transaction.atomic():
            found = User.objects.select_for_update().filter(username=name).first()
            if found is not None:
                require_match(request, _user_tag(found))
            change = users.UserChange(**given)
            row = users.update_user(name, change, by=self.principal.name)
        return tagged(request, replies.User.body(row), _user_tag(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete a user with their grants, tokens and saved queries. History keeps the
        name, and no other user gets it. For administrators."""
        require_admin(self.principal)
        users.delete_user(name, by=self.principal.name)
        return Response(status=204)


class PasswordView(ApiView):
    @extend_schema(request=PasswordChange, responses=replies.User)
    @idempotent
    def post(self, request: Request) -> Response:
        """Change the caller's own password. Ends their sessions, and their tokens
        unless `keep_tokens` is true. Who logs in at a directory changes it there."""
        given = body_of(PasswordChange, request)
        change_own_password(
            self.account,
            current=given["current_password"],
            new=given["new_password"],
            keep_tokens=given["keep_tokens"],
            door="rest",
        )
        return Response(replies.User.body(self.account))


def _user_tag(row: User) -> str:
    """Of what a PATCH changes; the password by its hash."""
    body = replies.User.body(row)
    kept = {name: body[name] for name in ("groups", "is_admin", "is_active")}
    return content_tag(kept | {"password": row.password})


class TokensView(ApiView):
    queries = PAGING | {"user"}

    @extend_schema(responses=page_of(replies.Token))
    def get(self, request: Request) -> Response:
        """The caller's tokens, without their secrets; an administrator sees
        everybody's."""
        rows = ApiToken.objects.select_related("user")
        if not self.principal.is_admin:
            rows = rows.filter(user=self.account)
        if user := request.query_params.get("user"):
            rows = rows.filter(user__username=user)
        return paged(request, rows, sorts={"id": ("id",)}, body=replies.Token.body)

    @extend_schema(request=TokenNew, responses={201: replies.TokenOnce})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new token of the caller. Its text is in this reply and nowhere else."""
        given = body_of(TokenNew, request)
        made = tokens.create_token(
            self.account,
            name=given["name"],
            expires_in_days=given["expires_in_days"],
            by=self.principal.name,
        )
        body = replies.Token.body(made.row) | {"token": made.text}
        return created(f"tokens/{made.row.pk}", body)


class TokenView(ApiView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: int) -> Response:
        """End a token at once."""
        tokens.delete_token(id, by=self.account)
        return Response(status=204)


class AuditView(AdminView):
    """Who did what to which object through which interface, the newest first. For
    administrators."""

    queries = PAGING | {"actor", "action", "object", "door", "is_allowed"}

    @extend_schema(responses=page_of(replies.AuditEntry))
    def get(self, request: Request) -> Response:
        rows = AuditEntry.objects.all()
        for name in ("actor", "action", "door"):
            if value := request.query_params.get(name):
                rows = rows.filter(**{name: value})
        if on := request.query_params.get("object"):
            rows = rows.filter(object__startswith=on)
        if (is_allowed := truth(request, "is_allowed")) is not None:
            rows = rows.filter(is_allowed=is_allowed)
        return paged(request, rows, sorts=NEWEST_FIRST, body=replies.AuditEntry.body)


def _users() -> QuerySet[User]:
    return User.objects.prefetch_related("groups")
