"""`manage.py doctor`: what is right and wrong with this installation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from config.supervisor.doctor import examine


class Command(BaseCommand):
    help = "Check versions, jars, memory, disk, lake, broker, database and sources."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        findings = examine()
        for one in findings:
            self.stdout.write(str(one))
        if not all(one.is_ok for one in findings):
            raise SystemExit(1)
