"""`manage.py ldap_check USER`: each step of a directory login, for an administrator."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from config.supervisor.ldap_steps import examine_login


class Command(BaseCommand):
    help = (
        "Walk through a login at the LDAP directory and say what Sluice would do. "
        "Changes nothing. With --password the user's password is asked for and tried."
    )
    # it is there to say what is wrong with the settings
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--password", action="store_true", help="ask and try it")

    def handle(self, *_: Any, **options: Any) -> None:
        password = getpass.getpass() if options["password"] else ""
        is_good = True
        for one in examine_login(options["user"], password):
            self.stdout.write(str(one))
            is_good = is_good and one.is_ok
        if not is_good:
            raise SystemExit(1)
