"""Where drivers find their Spark: masters as text, and what makes one unsafe.

Pure; `config.settings` and `config.checks` use it.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from core.addresses import is_loopback

_LOCAL = re.compile(r"local\[([1-9][0-9]*|\*)\]")
_WEB_PORT = 8080


def spark_master(text: str) -> str:
    """`local[N]` or `spark://host:port`, as it came; ValueError for anything else."""
    if _LOCAL.fullmatch(text):
        return text
    parts = urlsplit(text)
    if parts.scheme != "spark" or not parts.hostname or parts.port is None:
        raise ValueError("expected local[N] or spark://host:port")
    return text


def web_door(master: str) -> str:
    """Where a standalone master's web door is unless told otherwise; "" for local."""
    parts = urlsplit(master)
    return f"http://{parts.hostname}:{_WEB_PORT}" if parts.scheme == "spark" else ""


def leaves_the_machine(master: str, driver_host: str) -> bool:
    """Whether drivers and executors talk over a network that others may hear."""
    parts = urlsplit(master)
    hosts = [driver_host, parts.hostname or ""] if parts.scheme == "spark" else []
    return not all(map(is_loopback, hosts))
