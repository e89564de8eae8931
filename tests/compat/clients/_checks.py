"""What the clients' programs share: where the gateway is, and how a check is told."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

CONNECTION = json.loads(os.environ["SLUICE_COMPAT"])
IS_HTTP = CONNECTION.pop("transport") == "http"


def run(*checks: Callable[[], None]) -> None:
    """Run each and tell how it went, whatever happens to the others."""
    for check in checks:
        error = ""
        try:
            check()
        except Exception:  # noqa: BLE001  told in the line
            error = traceback.format_exc()[-1500:]
        line = json.dumps({"check": check.__name__, "error": error})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
