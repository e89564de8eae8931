"""The record in a file of Hudi's timeline (Avro, timeline layout 2)."""

from __future__ import annotations

import io
from typing import Any

import fastavro

from core.errors import TerminalError


def record_of(content: bytes, *, of: str) -> dict[str, Any]:
    """`of`: what cannot be read when it is damaged, for the TerminalError."""
    try:
        record: Any = next(iter(fastavro.reader(io.BytesIO(content))))
        return dict(record)
    except Exception as error:
        # zeros, bytes that flipped, an end too early: the parser meets each of them
        # with another exception, KeyError and IndexError among them
        kind = type(error).__name__
        raise TerminalError(
            f"{of} cannot be read: {error or 'it ends too early'} ({kind})",
            code="timeline_damaged",
            hint="put the file back from a copy of the lake",
        ) from error
