"""Asks a worker to look at a catalog job, or at users of the directory."""

from __future__ import annotations

import uuid

from core.dispatch import send

ADVANCE = "catalog.advance_discovery"
RECHECK = "catalog.recheck_directory"


def notify_worker(job_id: uuid.UUID) -> bool:
    """Whether the broker took the message; the tick sends another for what is due."""
    return send(ADVANCE, str(job_id))


def ring_recheck() -> bool:
    """Ask a worker to look again at users of the directory."""
    return send(RECHECK)
