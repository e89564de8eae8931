"""`manage.py rotate_secrets`: re-encrypts stored secrets with the newest key."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from catalog.secrets import rotate_secrets


class Command(BaseCommand):
    help = (
        "Re-encrypts every stored secret with the first of SLUICE_SECRETS_KEYS and "
        "reports which keys are still in use."
    )

    def handle(self, *_: object, **__: object) -> None:
        report = rotate_secrets()
        self.stdout.write(
            f"{report.checked} secrets, {report.rewritten} re-encrypted; "
            f"newest key {report.current_key}, "
            f"oldest key in use {report.oldest_key or 'none'}"
        )
        if report.unused_keys:
            self.stdout.write(
                "no longer needed in SLUICE_SECRETS_KEYS: "
                + ", ".join(report.unused_keys)
            )
