"""`manage.py write_docs`: write what docs/ has of tables in code."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.generated_pages import write_pages


class Command(BaseCommand):
    help = "Write docs/states.md, and the table of actions into docs/maintenance.md."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        write_pages(settings.BASE_DIR / "docs")
