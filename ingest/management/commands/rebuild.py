"""`manage.py rebuild [--dry-run]`: the metadata database follows the lake, after it was
lost, or restored from a backup.

It prints a line for each table that comes back, or whose rows do not agree with the
lake, and a summary. What happens to a table is decided in `ingest.pipelines.rebuilding`
and `ingest.pipelines.adoption`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from core.errors import InvalidRequest, SluiceError
from ingest.pipelines.adoption import (
    Adopted,
    adopt,
    lift_ids,
    require_same_lake,
    unknown_tables,
)
from ingest.pipelines.adoption_rules import FOLLOWED, Finding, summary
from ingest.pipelines.rebuilding import Rebuilt, rebuild, sources_without_password

DONE, NEEDS_ATTENTION, INCOMPLETE = 0, 1, 2
_ATTENTION = frozenset({"missing", "needs resync"})
_INCOMPLETE = frozenset({"busy", "unreachable"})


class Command(BaseCommand):
    help = (
        "After the metadata database was lost, or restored from a backup: bring sources"
        " and tables back that the lake has records of, take locks over, and positions,"
        " epochs and instants from the lake; end jobs of the backup. Exit code 0: done,"
        " 1: a table needs attention, 2: run it again."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would change"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        is_preview = bool(options["dry_run"])
        found: list[Finding] = []
        back: list[Rebuilt] = []
        try:
            require_same_lake()
        except InvalidRequest as error:
            self.stderr.write(f"nothing was changed: {error}")
            raise SystemExit(NEEDS_ATTENTION) from error
        try:
            if known := lift_ids(dry_run=is_preview):
                self.stdout.write(
                    f"ids of new tables {'would ' if is_preview else ''}begin above"
                    f" {known}, the highest one in the lake"
                )
            for table in rebuild(dry_run=is_preview):
                back.append(table)
                self._print_rebuilt(table, is_preview=is_preview)
            for one in adopt(dry_run=is_preview):
                found.append(one.finding)
                self._print(one, is_preview=is_preview)
            told = {table.table for table in back}
            unknown = [name for name in unknown_tables() if name not in told]
        except SluiceError as error:
            self.stderr.write(f"not finished: {error}. Run it again: it goes on")
            raise SystemExit(INCOMPLETE) from error
        for name in unknown:
            self.stdout.write(
                f"lake.{name}: not in the database, and the lake has no record of it."
                " Move its folder away and add its source table again"
            )
        for source in sources_without_password():
            self.stdout.write(
                f"{source}: needs its password again: on its page, or by PATCH"
                f" /api/v1/datasources/{source}. Until then its tables wait"
            )
        self._summarize(found, back, unknown, is_preview=is_preview)

    def _summarize(
        self,
        found: Sequence[Finding],
        back: Sequence[Rebuilt],
        unknown: Sequence[str],
        *,
        is_preview: bool,
    ) -> None:
        counts = summary(found)
        lost = sum(bool(table.problem) for table in back)
        numbers = {
            "to rebuild" if is_preview else "rebuilt": len(back) - lost,
            "not rebuilt": lost,
            **dict(sorted(counts.items())),
            "not in the database": len(unknown),
        }
        told = [f"{count} {what}" for what, count in numbers.items() if count]
        verb = "Nothing was changed" if is_preview else "Adopted"
        tables = f"{len(found)} table{'' if len(found) == 1 else 's'}"
        self.stdout.write(f"{verb}: {', '.join([tables, *told])}.")
        if counts.keys() & _INCOMPLETE:
            raise SystemExit(INCOMPLETE)
        if counts.keys() & _ATTENTION or unknown or lost:
            raise SystemExit(NEEDS_ATTENTION)

    def _print_rebuilt(self, table: Rebuilt, *, is_preview: bool) -> None:
        said = "would be rebuilt" if is_preview else "rebuilt"
        said = f"not rebuilt: {table.problem}" if table.problem else said
        self.stdout.write(f"lake.{table.table}: {said} by the lake's record of it")

    def _print(self, one: Adopted, *, is_preview: bool) -> None:
        status: str = one.finding.status
        if status in FOLLOWED and not is_preview:
            status = f"adopted ({status})"
        if one.finding.status != "agrees" or one.jobs:
            jobs = f"; jobs of the backup {'to end' if is_preview else 'ended'}: "
            ended = f"{jobs}{one.jobs}" if one.jobs else ""
            self.stdout.write(f"{one.table}: {status}: {one.finding.message}{ended}")
