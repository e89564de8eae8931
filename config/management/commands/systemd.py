"""`manage.py systemd DIR`: units for each process, by this installation's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.env import DECLARED
from config.systemd.services import installation, services
from config.systemd.units import TARGET, unit_files

ELSEWHERE = ("SLUICE_DATABASE_URL", "SLUICE_REDIS_URL")


class Command(BaseCommand):
    help = "Write hardened systemd units, one for each process"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, help="such as /etc/systemd/system")
        parser.add_argument("--user", default="sluice", help="who runs them")
        parser.add_argument(
            "--env-file",
            type=Path,
            default=Path("/etc/sluice/sluice.env"),
            help="settings, one SLUICE_…=value a line",
        )
        parser.add_argument(
            "--web-bind",
            default="127.0.0.1",
            help="where the reverse proxy finds the web process",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print the plan, write nothing"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        directory: Path = options["directory"]
        install = installation(
            user=options["user"], environment_file=options["env_file"].absolute()
        )
        found = services(web_bind=options["web_bind"])
        units = unit_files(install, found)
        if not options["dry_run"]:
            _write(directory, units)
        for each in found:
            name = f"sluice-{each.name}.service"
            self.stdout.write(f"{directory / name}: {each.what}")
        self.stdout.write(f"{directory / TARGET}: all of them")
        self.stdout.write(
            f"run by {install.user}, in {install.root}, home {install.home}, "
            f"settings {install.environment_file}, lake {settings.SLUICE_LAKE_URI}"
        )
        for name in ELSEWHERE:
            if DECLARED[name].source == "default":
                self.stdout.write(
                    f"before the start: set {name} in {install.environment_file}; "
                    "these units start no server of their own"
                )
        self.stdout.write(
            f"next: systemctl daemon-reload && systemctl enable --now {TARGET}"
        )


def _write(directory: Path, units: dict[str, str]) -> None:
    """Units hold no secret, so all users may read them."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in units.items():
            (directory / name).write_text(text)
    except OSError as error:
        raise CommandError(f"{directory}: {error.strerror}; no unit was started") from (
            error
        )
