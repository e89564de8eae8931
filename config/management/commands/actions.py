"""`manage.py actions`: print the table of actions, or write it into its page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from config.generated_pages import actions_table, maintenance_page, with_actions


class Command(BaseCommand):
    help = "Print the table of actions; --write puts it into docs/maintenance.md."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["write"]:
            page = maintenance_page(settings.BASE_DIR)
            page.write_text(with_actions(page.read_text()))
        else:
            self.stdout.write(actions_table())
