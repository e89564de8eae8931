"""`manage.py import FILE`: bring the configuration to what a YAML document states.

Exit code 0: done (or, with --check, nothing differs), 1: --check found a difference,
2: refused, nothing was changed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError

from config.config_export.applying import Outcome, import_document
from config.config_export.diff import Change
from config.config_export.document import parse_document
from config.config_export.text import Text, read_text
from core.errors import InvalidRequest, SluiceError

DONE, DIFFERS, REFUSED = 0, 1, 2


class Command(BaseCommand):
    help = (
        "Create and change sources, onboardings, policies, users and grants as a YAML "
        "document states them; all or nothing, and nothing is removed or loaded."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="what `export` wrote; - = standard input")
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would be done"
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="like --dry-run; exit code 1 when anything differs",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        is_dry = options["dry_run"] or options["check"]
        text: Text | None = None
        try:
            text = read_text(_read(options["file"]))
            outcome = import_document(
                parse_document(text.data), environment=os.environ, is_dry=is_dry
            )
        except SluiceError as error:
            self._refuse(error, text)
        except DatabaseError as error:
            self.stderr.write(f"the metadata database failed: {error}")
            raise SystemExit(REFUSED) from None
        else:
            self._print(outcome, is_dry=is_dry)
            code = DIFFERS if options["check"] and outcome.differs else DONE
            raise SystemExit(code)

    def _refuse(self, error: SluiceError, text: Text | None) -> None:
        self.stderr.write(f"nothing was changed: {error}")
        faults: Any = error.facts.get("errors") or []
        for fault in faults:
            where = f"line {text.line_of(fault['pointer'])}: " if text else ""
            self.stderr.write(f"  {where}{fault['pointer']}: {fault['detail']}")
        raise SystemExit(REFUSED)

    def _print(self, outcome: Outcome, *, is_dry: bool) -> None:
        counts: dict[str, int] = {}
        for change in outcome.changes:
            counts[change.action] = counts.get(change.action, 0) + 1
            self._print_change(change)
        summary = ", ".join(f"{count} {action}" for action, count in counts.items())
        self.stdout.write(
            ("would be: " if is_dry else "done: ") + (summary or "nothing")
        )
        for note in outcome.notes:
            self.stdout.write(f"next: {note}")

    def _print_change(self, change: Change) -> None:
        about = f" ({change.reason})" if change.reason else ""
        self.stdout.write(
            f"{change.action:<10} {change.item.kind} {change.item.name}{about}"
        )
        for each in change.differences:
            self.stdout.write(f"    {each.field}: {each.before!r} -> {each.after!r}")


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is not UTF-8: byte {error.start}") from None
