"""`manage.py adopt-lake [--dry-run]`: after a restore of the metadata database.

It prints a line for each table whose rows do not agree with the lake, and a summary.
What happens to a table is decided in `ingest.pipelines.adoption`.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from core.errors import SluiceError
from ingest.pipelines.adoption import Adopted, adopt, lift_table_ids, unknown_tables
from ingest.pipelines.adoption_rules import FOLLOWED, summary

DONE, NEEDS_ATTENTION, INCOMPLETE = 0, 1, 2
_ATTENTION = frozenset({"missing", "needs resync"})
_INCOMPLETE = frozenset({"busy", "unreachable"})


class Command(BaseCommand):
    help = (
        "After a restore of the metadata database: take locks over, and positions, "
        "epochs and instants from the lake; end jobs of the backup. Exit code 0: done, "
        "1: a table needs attention, 2: run it again."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would change"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        is_preview = bool(options["dry_run"])
        found = []
        try:
            if known := lift_table_ids(dry_run=is_preview):
                self.stdout.write(
                    f"ids of new tables {'would ' if is_preview else ''}begin above"
                    f" {known}, the highest one in the lake"
                )
            for one in adopt(dry_run=is_preview):
                found.append(one.finding)
                self._print(one, is_preview=is_preview)
            unknown = unknown_tables()
        except SluiceError as error:
            self.stderr.write(f"not finished: {error}. Run it again: it goes on")
            raise SystemExit(INCOMPLETE) from error
        for name in unknown:
            self.stdout.write(
                f"lake.{name}: not in the database: it was added after the backup. Move"
                " its folder away and add its source table again"
            )
        counts = summary(found)
        told = [f"{count} {status}" for status, count in sorted(counts.items())]
        told += [f"{len(unknown)} not in the database"] if unknown else []
        verb = "Nothing was changed" if is_preview else "Adopted"
        tables = f"{len(found)} table{'' if len(found) == 1 else 's'}"
        self.stdout.write(f"{verb}: {', '.join([tables, *told])}.")
        if counts.keys() & _INCOMPLETE:
            raise SystemExit(INCOMPLETE)
        if counts.keys() & _ATTENTION or unknown:
            raise SystemExit(NEEDS_ATTENTION)

    def _print(self, one: Adopted, *, is_preview: bool) -> None:
        status: str = one.finding.status
        if status in FOLLOWED and not is_preview:
            status = f"adopted ({status})"
        if one.finding.status != "agrees" or one.jobs:
            jobs = f"; jobs of the backup {'to end' if is_preview else 'ended'}: "
            ended = f"{jobs}{one.jobs}" if one.jobs else ""
            self.stdout.write(f"{one.table}: {status}: {one.finding.message}{ended}")
