#!/usr/bin/env python
"""Django's command line; `python manage.py help` lists what Sluice adds."""

from __future__ import annotations

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["quickstart"]:  # it makes what the settings need
        from config.supervisor.quickstart import main

        raise SystemExit(main(sys.argv[2:]))
    # a command is a module, which has no hyphen
    name = [w if w[:1] == "-" else w.replace("-", "_") for w in sys.argv[1:2]]
    try:
        execute_from_command_line([sys.argv[0], *name, *sys.argv[2:]])
    except ImproperlyConfigured as wrong:  # a checkout that nobody started yet
        raise SystemExit(
            f"manage.py: {wrong}\nA demo's settings come with its start, `make demo`;"
            " load others before: docs/production.md"
        ) from None
