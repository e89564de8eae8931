"""`manage.py prepare`: brings the database up to date and makes the first login."""

from __future__ import annotations

import json
import secrets
import string
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand

from catalog.access.tokens import create_token, find_token
from catalog.access.users import ensure_admin, was_deleted
from config.supervisor.home import Home
from core.files import write_private


def first_password() -> str:
    """It begins with a letter: clients on a command line take `-x` for an option."""
    return secrets.choice(string.ascii_letters) + secrets.token_urlsafe(15)


class Command(BaseCommand):
    help = "Migrate the database; make administrator and token at the first run."

    def handle(self, *_: Any, **__: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        path = Home(settings.SLUICE_HOME).administrator_file
        login: dict[str, str] = {}
        if path.exists():
            login = json.loads(path.read_text())
        else:
            login = {"username": "admin", "password": first_password()}
        user = User.objects.filter(username=login["username"]).first()
        if user is None and was_deleted(login["username"]):
            return  # an administrator took the place of the first one
        if user is None:
            user = ensure_admin(login["username"], login["password"])
        if not login.get("token") or find_token(login["token"]) is None:
            token = create_token(
                user,
                name="quickstart",
                expires_in_days=settings.SLUICE_TOKEN_DAYS or None,
                by="system",
            )
            login["token"] = token.text
        write_private(path, json.dumps(login))
