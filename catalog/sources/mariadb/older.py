"""What a column gave to the rows that were there as it was added. Pure.

Nothing of the server keeps it: it is the column's default as long as no later statement
has altered that, which the log shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from catalog.sources.mariadb.types import lake_type

# Of each column, as information_schema.COLUMNS has them.
FACTS = "COLUMN_DEFAULT, IS_NULLABLE = 'YES', EXTRA"
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_NUMBERS = frozenset({"int", "bigint", "float", "double", "decimal"})
_TEXT = re.compile(r"'((?:[^'\\]|'')*)'", re.DOTALL)
_TEXTS = re.compile(r"(var)?char\b|(tiny|medium|long)?text\b|enum\b|set\b", re.I)
_LISTS = re.compile(r"enum\b|set\b", re.IGNORECASE)
# A statement may write a year otherwise than the server prints it.
_YEARS = {"year(2)": re.compile(r"\d\d?"), "year(4)": re.compile(r"\d{4}")}
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
_SIZE = re.compile(r"\((\d+)\)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")
# Values that the server makes itself, row by row.
_MADE = ("GENERATED", "AUTO_INCREMENT")


@dataclass(frozen=True, slots=True)
class Older:
    """values: column → text, in the form that a log of text has; those of other columns
    are NULL. untold: columns of which nobody can know it."""

    values: Mapping[str, str]
    untold: tuple[str, ...] = ()


NO_OLDER = Older({})


def older_of(rows: Iterable[tuple[str, str, object, object, object]]) -> Older:
    """rows: name and type of each column, and `FACTS`, of a session in UTC."""
    values, untold = {}, []
    for name, type, default, is_nullable, extra in rows:
        if is_made(str(extra or "")):
            untold.append(name)
            continue
        text = None if default is None else str(default)
        if is_nullable and text in {None, "NULL"}:
            continue
        value = _implied(type) if text is None else _value(type, text)
        if value is None:
            untold.append(name)
        else:
            values[name] = value
    return Older(values, tuple(untold))


def given(type: str, default: str | None, *, is_nullable: bool) -> Older | None:
    """What the column "" gave, by its type and by what the statement says that added
    it, in the form of COLUMN_DEFAULT; None = that may have been stored as another."""
    if default is not None and default != "NULL" and not _is_stored(type, default):
        return None
    # to a session in Oracle's mode, an empty text is NULL
    if default == "''" and is_nullable:
        return None
    found = older_of([("", type, default, is_nullable, "")])
    return None if found.untold else found


def _is_stored(type: str, default: str) -> bool:
    """Whether the server keeps it letter by letter, whatever the session's modes."""
    lake, _, rest = lake_type(type).type.partition("(")
    size = _SIZE.search(type)
    if lake in {"int", "bigint"}:
        return re.fullmatch(r"-?\d+", default) is not None
    if lake == "decimal":
        scale = int(rest.rstrip(")").partition(",")[2])
        found = _NUMBER.fullmatch(default)
        return found is not None and len(found[1] or ".") - 1 <= scale
    if lake == "double":
        return _NUMBER.fullmatch(default) is not None
    text = _TEXT.fullmatch(default)
    if text is None:
        return False
    if lake == "date":
        return _DAY.fullmatch(text[1]) is not None
    if lake == "timestamp_ntz":
        found = _MOMENT.fullmatch(text[1])
        digits = len(found[1] or ".") - 1 if found else 0
        return found is not None and digits <= int(size[1] if size else 0)
    is_text = _TEXTS.match(type) is not None and not _LISTS.match(type)
    is_short = size is None or len(text[1].replace("''", "'")) <= int(size[1])
    is_padded = type.lower().startswith("char") and text[1].endswith(" ")
    return is_text and is_short and not is_padded


def is_made(extra: str) -> bool:
    return any(word in extra.upper() for word in _MADE)


def _implied(type: str) -> str | None:
    """Of a column that may not be NULL and has no default."""
    if _lake(type) in _NUMBERS:
        return "0"
    return "" if _TEXTS.match(type) and not _LISTS.match(type) else None


def _value(type: str, default: str) -> str | None:
    lake = _lake(type)
    if lake in _NUMBERS:
        form = _YEARS.get(type, _NUMBER)
        return default if form.fullmatch(default) else None
    found = _TEXT.fullmatch(default)
    if found is None:
        return None  # computed
    text = found[1].replace("''", "'")
    if lake in _MOMENTS:
        return _moment(text, lake)
    return text if _TEXTS.match(type) else None


def _moment(text: str, lake: str) -> str | None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None  # a zero date
    return f"{text}+00" if lake == "timestamp" else text


def _lake(type: str) -> str:
    return lake_type(type).type.partition("(")[0]
