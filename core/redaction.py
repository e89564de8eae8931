"""Takes secrets out of text that leaves the process: the last line, not the first.

Code must not put secrets into messages at all. What slips through, in an
exception of a driver for instance, is removed here by value and by shape.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping

HIDDEN = "••••"
MOST_REMEMBERED = 2_000
SHORTEST = 6

_TOKEN = re.compile(r"(sl[ti]_)[A-Za-z0-9]+_[A-Za-z0-9_-]+")
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@/\s]+(@)")
# A MariaDB server says whether there was one: (using password: YES)
_ASSIGNED = re.compile(
    r"(?i)\b(?!(?<=\(using )password: (?:YES|NO)\))"
    r"(password|passwd|secret|pepper)(['\"]?\s*[=:]\s*['\"]?)([^\s'\"&;,}]+)"
)
_SECRET_KEY = re.compile(r"(?i)password|passwd|secret|token|pepper|authorization")

_lock = threading.Lock()
_remembered: OrderedDict[str, None] = OrderedDict()


def remember_secret(value: str) -> None:
    """Remove this value from now on; short ones are left (they would hit words)."""
    if len(value) < SHORTEST:
        return
    with _lock:
        _remembered[value] = None
        _remembered.move_to_end(value)
        while len(_remembered) > MOST_REMEMBERED:
            _remembered.popitem(last=False)


def redact(text: str) -> str:
    """The text without remembered values, tokens, and passwords in URLs or pairs."""
    with _lock:
        known = list(_remembered)
    for value in known:
        if value in text:
            text = text.replace(value, HIDDEN)
    text = _TOKEN.sub(rf"\g<1>{HIDDEN}", text)
    text = _URL_PASSWORD.sub(rf"\g<1>{HIDDEN}\g<2>", text)
    return _ASSIGNED.sub(rf"\g<1>\g<2>{HIDDEN}", text)


def redact_facts(facts: Mapping[str, object]) -> dict[str, object]:
    """JSON-able facts whose secret-sounding keys and string values are cleaned."""
    return {key: _clean(key, value) for key, value in facts.items()}


def _clean(key: str, value: object) -> object:
    if _SECRET_KEY.search(key) and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return redact_facts(value)
    if isinstance(value, list | tuple):
        return [_clean("", item) for item in value]
    return value
