"""JSON pointers (RFC 6901): where in a request or a document something is wrong."""

from __future__ import annotations


def escape(part: object) -> str:
    """One part of a pointer: a member's name or an index."""
    return str(part).replace("~", "~0").replace("/", "~1")


def unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def below(pointer: str, part: object) -> str:
    """The pointer of a member of what `pointer` is about."""
    return f"{pointer}/{escape(part)}"
