"""`manage.py export FILE`: what people decided, as YAML without secrets.

The file is written whole or not at all, readable by its owner only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connection, transaction

from config.config_export.configuration import (
    grants_without_datasource,
    items_of_configuration,
)
from config.config_export.rendering import render
from config.config_export.text import write_text
from core.files import write_private


class Command(BaseCommand):
    help = (
        "Write sources, onboardings, policies, users and grants as YAML, without "
        "secrets. Read it back with `manage.py import`."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="where to; - = standard output")

    def handle(self, *_: Any, **options: Any) -> None:
        text = export_text()
        for grant in grants_without_datasource():
            self.stderr.write(f"left out: {grant}: there is no such datasource")
        if options["file"] == "-":
            self.stdout.write(text, ending="")
            return
        write_private(Path(options["file"]), text)
        self.stderr.write(f"written: {options['file']}")


def export_text() -> str:
    """All of it as of one moment."""
    with transaction.atomic():
        if not connection.in_atomic_block or len(connection.savepoint_ids) == 0:
            _read_one_moment()
        return write_text(render(items_of_configuration()))


def _read_one_moment() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
