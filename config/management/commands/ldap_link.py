"""`manage.py ldap_link USER`: a local user becomes the directory's of that name."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from catalog.access.external_users import hand_over
from catalog.access.ldap_directory import Directory
from catalog.access.ldap_spec import PROVIDER
from core.errors import SluiceError


class Command(BaseCommand):
    help = (
        "Hand a local user over to the entry of that name in the LDAP directory: "
        "grants, groups and tokens stay, the local password ends."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")

    def handle(self, *_: Any, **options: Any) -> None:
        spec = settings.SLUICE_LDAP
        if spec is None or not spec.can_search:
            raise CommandError("set SLUICE_LDAP_URL and SLUICE_LDAP_BIND_DN first")
        try:
            with Directory(spec) as directory:
                entry = directory.entry_named(options["user"])
            if entry is None or entry.is_disabled:
                raise CommandError("the directory has no active user of that name")
            hand_over(options["user"], provider=PROVIDER, subject=entry.subject)
        except SluiceError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['user']} logs in as {entry.dn} from now on")
