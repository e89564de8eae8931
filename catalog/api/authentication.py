"""`Authorization: Bearer slt_…` for REST; the UI's session comes beside it."""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from catalog.access.authentication import Proven, prove_bearer
from catalog.access.policy import Principal
from catalog.access.principals import principal_of
from core.context import name_actor
from core.errors import AccessDenied


class BearerTokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, Proven] | None:
        scheme, _, token = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        try:
            proven = prove_bearer(token.decode("latin-1").strip(), door="rest")
        except AccessDenied as error:
            raise AuthenticationFailed(error.message) from None
        name_actor(proven.name)
        return proven.row, proven

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="sluice"'


def principal_from(request: Request) -> Principal:
    """The caller as policy principal, read at most once per request."""
    if isinstance(request.auth, Proven):
        return request.auth.principal
    found: Principal | None = getattr(request, "_sluice_principal", None)
    if found is None:
        assert isinstance(request.user, User), "the view must require authentication"
        name_actor(request.user.username)
        found = principal_of(request.user)
        request._sluice_principal = found  # type: ignore[attr-defined]
    return found
