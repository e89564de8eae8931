"""`manage.py quickstart`, for Django's list of commands.

`manage.py` itself calls `config.supervisor.quickstart` before settings are read.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from config.supervisor.quickstart import main


class Command(BaseCommand):
    help = "Start Sluice on this machine with embedded servers and a demo source."
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        raise SystemExit(main(argv[2:]))

    def handle(self, *_: Any, **__: Any) -> None:
        main([])
