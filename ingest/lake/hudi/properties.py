"""`hoodie.properties` as Java writes and reads it: ASCII, all else is escaped. Pure."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PLAIN = re.compile(r"[^\x20-\x7e]|\\")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def pairs_in(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if line and line[0] not in "#!")
    pairs = (line.partition("=") for line in lines)
    return {_meant(key.strip()): _meant(value.strip()) for key, _, value in pairs}


def line_of(name: str, value: str) -> str:
    return f"{name}={_PLAIN.sub(_escape, value)}"


def _meant(written: str) -> str:
    plain = _ESCAPED.sub(_unescape, written)
    # what is no character of 16 bits is written as two escapes
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(found: re.Match[str]) -> str:
    unit, sign = found.groups()
    return chr(int(unit, 16)) if unit else _CONTROL.get(sign, sign)


def _escape(found: re.Match[str]) -> str:
    if found[0] == "\\":
        return "\\\\"
    units = found[0].encode("utf-16-be").hex(" ", 2).upper().split()
    return "".join(f"\\u{unit}" for unit in units)
