"""Makes an engine's error text fit to be read by users.

Pure: removes the Thrift Server's wrapping, plan trees, stack traces and storage
addresses; keeps the error class and the sentence.
"""

from __future__ import annotations

import re

# Errors repeat what users wrote: possessive throughout, so each text is read once.
_EXCEPTION = r"(?:[a-z]\w*+\.[\w.$]*+(?:(?<=Exception)|(?<=Error))(?:: |$)\s*+)*+"
_WRAPPING = re.compile(
    rf"^{_EXCEPTION}"
    r"(?:Error running query: |Error retrieving next row set: )?+"
    rf"{_EXCEPTION}(?:\[(?P<class>[A-Z0-9_.]++)\] )?+{_EXCEPTION}"
)
_PLAN = re.compile(r";\n|\n(?:'[A-Z]|\+- |:- |== (?!SQL ==))")
_TRACE = re.compile(r"\n[ \t]++at [\w.$/]++\(|\nCaused by: |\nDriver stacktrace:")
_ADDRESS = re.compile(
    r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}+:/[^\s,;\])}>'\"`]*+"
    r"|(?<![\w/.])/[\w.@=+-]++/[\w.@=+/-]*+"
)
MAX_TEXT = 4000
# The wrapping and the beginning of a plan are read before the text is cut to size.
MAX_RAW = 4 * MAX_TEXT


def scrub_message(text: str) -> str:
    """Return what a user may read of an engine's error text. Idempotent."""
    text = text[:MAX_RAW]
    wrapping = _WRAPPING.match(text)
    rest = text[wrapping.end() :] if wrapping else text
    error_class = wrapping.group("class") if wrapping else None
    if error_class and not rest.startswith("["):
        rest = f"[{error_class}] {rest}"
    for end in (_TRACE, _PLAN):
        found = end.search(rest)
        if found:
            rest = rest[: found.start()]
    return _ADDRESS.sub("(storage)", rest).strip()[:MAX_TEXT]
