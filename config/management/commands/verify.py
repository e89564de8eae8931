"""`manage.py verify NAME`: is the lake table what its source says? An exit code.

It asks for the job and waits; the driver compares. It must not know how.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors.lookups import table_named
from core.errors import InvalidRequest, SluiceError, TransientError
from core.models import Job
from ingest.pipelines import table_commands

EQUAL, DIFFERENT, UNDECIDED = 0, 1, 2
ACTOR = "manage.py"
POLL_SECONDS = 0.5
HEADS = {
    "missing": "missing in the lake",
    "extra": "only in the lake",
    "different": "with other values",
}


class Command(BaseCommand):
    help = (
        "Compare a lake table with its source. Exit code 0: equal, 1: different, "
        "keys are listed, 2: could not be decided."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="database.table of the lake")
        parser.add_argument(
            "--wait-seconds", type=float, default=None, help="default: until it ends"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            code = self._verify(options["name"], options["wait_seconds"])
        except SluiceError as error:
            self.stderr.write(f"could not be decided: {error}")
            code = UNDECIDED
        except Exception as error:  # noqa: BLE001 - python's own exit code is "different"
            self.stderr.write(f"could not be decided: {type(error).__name__}: {error}")
            code = UNDECIDED
        raise SystemExit(code)

    def _verify(self, name: str, wait_seconds: float | None) -> int:
        table = table_named(Principal(ACTOR, is_admin=True), name)
        if table.kind != Table.LAKE:
            raise InvalidRequest(
                f"{table} is a table of a source", hint="name its lake table"
            )
        job = table_commands.start_verify(table, actor=ACTOR)
        self._wait(job, wait_seconds)
        facts = (job.report or {}).get("facts") or {}
        if job.state != "SUCCEEDED" or "verdict" not in facts:
            message = job.error_message or job.reason or f"the job is {job.state}"
            raise TransientError(message, hint=job.error_hint)
        self._print(table, facts)
        return EQUAL if facts["verdict"] == "equal" else DIFFERENT

    def _wait(self, job: Job, wait_seconds: float | None) -> None:
        end = None if wait_seconds is None else time.monotonic() + wait_seconds
        message = ""
        while not job.is_finished:
            if end is not None and time.monotonic() >= end:
                raise TransientError(
                    f"not finished after {wait_seconds:g} s: {_where(job)}",
                    hint=f"job {job.pk} goes on; look at it, or cancel it",
                )
            if (now := _where(job)) != message:
                self.stderr.write(now)
                message = now
            time.sleep(POLL_SECONDS)
            job.refresh_from_db()

    def _print(self, table: Table, facts: dict[str, Any]) -> None:
        self.stdout.write(f"{table}: {facts['summary']}")
        self.stdout.write(f"rows at the source   {facts['source_rows']}")
        self.stdout.write(f"rows in the lake     {facts['lake_rows']}")
        self.stdout.write(f"lake as of instant   {facts['instant']}")
        if facts["position"]:
            self.stdout.write(f"synced up to         {facts['position']}")
            self.stdout.write(f"pending              {facts['pending']}")
        for kind, head in HEADS.items():
            if not facts[kind]:
                continue
            self.stdout.write(f"{head}: {facts[kind]}")
            for key in (facts["keys"] or {}).get(kind, []):
                self.stdout.write(f"  {key}")


def _where(job: Job) -> str:
    """Where it is, without figures that change at every look."""
    return f"{job.state}: {job.phase or job.reason or 'waiting'}"
