"""What became of one attempt to send. A value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """code  of HTTP or SMTP, None when nobody answered. error "" = it arrived."""

    code: int | None = None
    error: str = ""

    @property
    def is_delivered(self) -> bool:
        return not self.error
