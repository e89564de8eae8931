"""Whether the process of this container does its work: exit code 0 or 1.

Standard library only, no settings, no database: it must be cheap and never hang.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import urllib.request
from pathlib import Path

SECONDS = 4.0


def web() -> bool:
    """The web process answers, whatever else is away."""
    url = f"http://127.0.0.1:{os.environ.get('SLUICE_WEB_PORT', '8000')}/health/live"
    with urllib.request.urlopen(url, timeout=SECONDS) as reply:
        return bool(reply.status == 200)


def gateway() -> bool:
    """The ports of HiveServer2 accept, binary and HTTP."""
    for name, default in (("GATEWAY", "10000"), ("GATEWAY_HTTP", "10001")):
        port = int(os.environ.get(f"SLUICE_{name}_PORT", default))
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS / 2).close()
    return True


def driver() -> bool:
    """The Spark driver that the host started lives."""
    home = Path(os.environ.get("SLUICE_HOME", "/var/lib/sluice"))
    facts = json.loads((home / "run" / "driver.pid.json").read_text())
    return Path(f"/proc/{int(facts['pid'])}").exists()


CHECKS = {"web": web, "gateway": gateway, "driver": driver}


def main(names: list[str]) -> int:
    try:
        return 0 if CHECKS[names[0]]() else 1
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
