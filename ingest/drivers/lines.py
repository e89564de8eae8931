"""Lines to and from a driver. Pure but for the queue they come through."""

from __future__ import annotations

import json
import queue
from typing import Any

from ingest.contract.job import JobSpec, SecretAnswer, encode
from ingest.drivers.launcher import Message

KINDS = frozenset({"ready", "accepted", "secret_request", "heartbeat", "log", "report"})


def parse_line(line: bytes, origin: str) -> Message | None:
    """A message, or None for noise that some library printed."""
    try:
        data = json.loads(line)
        kind = data.pop("type")
    except (ValueError, AttributeError, KeyError, TypeError):
        return None
    return Message(kind, data, origin) if kind in KINDS else None


def run_order(spec: JobSpec) -> dict[str, Any]:
    return {"type": "run", "spec": json.loads(encode(spec))}


def secret_order(answer: SecretAnswer) -> dict[str, Any]:
    return {"type": "secret", **json.loads(encode(answer))}


def drain(lines: queue.SimpleQueue[Message], seconds: float) -> list[Message]:
    """All that is there; waits at most so long for the first."""
    found: list[Message] = []
    try:
        found.append(lines.get(timeout=seconds))
        while True:
            found.append(lines.get_nowait())
    except queue.Empty:
        return found
