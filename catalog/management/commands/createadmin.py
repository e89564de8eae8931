"""`manage.py createadmin NAME`: the first administrator, or a way back in."""

from __future__ import annotations

import getpass
import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from catalog.access.users import ensure_admin
from core.errors import InvalidRequest


class Command(BaseCommand):
    help = (
        "Makes an active administrator of that name. The password is asked for, or "
        "read from SLUICE_ADMIN_PASSWORD; it is never an argument."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")

    def handle(self, *_: Any, **options: Any) -> None:
        password = os.environ.get("SLUICE_ADMIN_PASSWORD") or getpass.getpass()
        try:
            user = ensure_admin(options["name"], password)
        except InvalidRequest as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{user.username} is an administrator")
