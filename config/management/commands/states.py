"""`manage.py states`: print docs/states.md, or write it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from config.generated_pages import states_page


class Command(BaseCommand):
    help = "Print the page of state machines; --write puts it into docs/states.md."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        page = states_page()
        if options["write"]:
            (settings.BASE_DIR / "docs" / "states.md").write_text(page)
        else:
            self.stdout.write(page)
