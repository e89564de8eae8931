"""What a page says, whatever the indentation of its template."""

from __future__ import annotations

from typing import Any


def html_of(response: Any) -> str:
    """The HTML of a response, each run of white space as one space."""
    return " ".join(response.content.decode().split())
