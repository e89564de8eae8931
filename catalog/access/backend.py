"""Django's door to `catalog.access.authentication`, for the login form's session."""

from __future__ import annotations

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest

from catalog.access.authentication import prove
from core.errors import SluiceError


class SluiceBackend(ModelBackend):
    """Sessions come from a throttled, audited login; `get_user` refuses inactive."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **_: object,
    ) -> User | None:
        if not username or not password:
            return None
        try:
            return prove(username, password, door="web").row
        except SluiceError:
            return None
