"""Asks a worker to look at a catalog job."""

from __future__ import annotations

import uuid

from core.dispatch import send

ADVANCE = "catalog.advance_discovery"


def ring(job_id: uuid.UUID) -> bool:
    """Whether the broker took the message; the tick rings again for what is due."""
    return send(ADVANCE, str(job_id))
