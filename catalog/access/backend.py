"""Django's ways to `catalog.access.authentication`: the session, and how a password is
stored."""

from __future__ import annotations

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import Argon2PasswordHasher
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


class PasswordHash(Argon2PasswordHasher):
    """Argon2id, which costs a guesser memory as well as time: OWASP's second setting
    (Password Storage Cheat Sheet), 19 MiB, two passes, one lane. A login takes a tenth
    of the processor's time that PBKDF2 of the same strength takes."""

    time_cost = 2
    memory_cost = 19_456  # KiB
    parallelism = 1
