"""`manage.py settings`: every SLUICE_* setting with its value and where it is from."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.env import DECLARED


class Command(BaseCommand):
    help = "List every SLUICE_* setting, its source, and its value unless secret."

    def handle(self, *_: Any, **__: Any) -> None:
        settings.INSTALLED_APPS  # noqa: B018  reading them is what declares them
        for name in sorted(DECLARED):
            one = DECLARED[name]
            value = "(hidden)" if one.is_secret else one.value
            self.stdout.write(f"{name}={value}  [{one.source}]  {one.meaning}")
