"""Ports for servers that tests start, stop and start again."""

from __future__ import annotations

import random

from config.supervisor.ports import is_free


def free_port() -> int:
    """One that no connection gets from the kernel before, or between, its servers: who
    tries again and again to reach a server that is away would be given it sometimes."""
    return next(p for p in random.sample(range(20_000, 32_000), 100) if is_free(p))
