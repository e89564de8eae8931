"""JDBC search patterns: to SQL's LIKE and to a predicate. Pure.

`%` any text, `_` one character, a backslash takes the next character literally;
`*` counts as `%`, as Hive's own clients send it. "" and None match everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable

EVERYTHING = frozenset({"", "%", "*"})


def is_everything(pattern: str | None) -> bool:
    return pattern is None or pattern in EVERYTHING


def escaped(name: str) -> str:
    """The pattern that matches exactly this name."""
    return re.sub(r"([\\%_*])", r"\\\1", name)


def literally(text: str) -> str:
    """For SQL's LIKE: the text itself, none of its letters a wildcard."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def for_sql(pattern: str) -> str:
    """The pattern for SQL's LIKE with its default escape character."""
    text = ""
    for letter, is_literal in _letters(pattern):
        if is_literal:
            text += f"\\{letter}" if letter in "\\%_" else letter
        else:
            text += "%" if letter == "*" else letter
    return text


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """A predicate over whole names, ignoring case."""
    if pattern is None or is_everything(pattern):
        return lambda _: True
    wild = {"%": ".*", "*": ".*", "_": "."}
    text = "".join(
        re.escape(letter) if is_literal or letter not in wild else wild[letter]
        for letter, is_literal in _letters(pattern)
    )
    found = re.compile(text, re.IGNORECASE | re.DOTALL)
    return lambda name: found.fullmatch(name) is not None


def _letters(pattern: str) -> list[tuple[str, bool]]:
    """(character, is it literal); a backslash at the very end is itself literal."""
    letters: list[tuple[str, bool]] = []
    is_escaped = False
    for character in pattern:
        if not is_escaped and character == "\\":
            is_escaped = True
            continue
        letters.append((character, is_escaped))
        is_escaped = False
    if is_escaped:
        letters.append(("\\", True))
    return letters
