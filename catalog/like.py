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
    return "".join(map(_in_sql, _letters(pattern)))


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """A predicate over whole names, ignoring case.

    A name is read once per part between two wildcards, and not at all when it is
    shorter than the pattern: each part takes the first place that fits, for good.
    """
    if pattern is None or is_everything(pattern):
        return lambda _: True
    parts = _between_wildcards(pattern)
    if len(parts) == 1:
        text = parts[0]
    else:
        first, *middle, last = parts
        text = first + "".join(f"(?>.*?{part})" for part in middle if part)
        text += f".*{last}"
    least = sum(1 for letter in _letters(pattern) if not _is_any(letter))
    found = re.compile(text, re.IGNORECASE | re.DOTALL)
    return lambda name: len(name) >= least and found.fullmatch(name) is not None


def _in_sql(letter: tuple[str, bool]) -> str:
    text, is_literal = letter
    if _is_any(letter):
        return "%"
    return f"\\{text}" if is_literal and text in "\\%_" else text


def _is_any(letter: tuple[str, bool]) -> bool:
    """Whether it stands for any text."""
    return letter in {("%", False), ("*", False)}


def _between_wildcards(pattern: str) -> list[str]:
    """Regular expressions of the parts between `%`, each of a fixed length."""
    parts = [""]
    for letter in _letters(pattern):
        if _is_any(letter):
            parts.append("")
        else:
            parts[-1] += "." if letter == ("_", False) else re.escape(letter[0])
    return parts


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
