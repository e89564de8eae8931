"""What the gateway itself must know of a statement: is it USE, is it SET, which key.

A hint for good manners (result set or not, clear errors), never a guard: the engine
decides on the analysed plan. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

# Possessive and atomic throughout: a client's text is read once, never tried again.
_LEADING = re.compile(r"(?>\s++|;|--[^\n]*+(?:\n|$)|/\*.*?\*/)*+", re.DOTALL)
_NAME = r"(`(?:[^`]|``)++`|[A-Za-z_]\w*+)"
_USE = re.compile(
    rf"use\s++(?:(?:database|schema)\s++)?(?:{_NAME}\s*+\.\s*+)?{_NAME}\s*+;?+\s*+",
    re.IGNORECASE,
)
_KEY = r"(?:`([\w.:$-]++)`|([\w.:$-]++))"
_SET = re.compile(rf"set\s++{_KEY}\s*+=", re.IGNORECASE)
_RESET = re.compile(rf"reset\s++{_KEY}\s*+;?+\s*+", re.IGNORECASE)
_TIME_ZONE = re.compile(r"set\s++time\s++zone\b", re.IGNORECASE)
_RESULTLESS = re.compile(r"use\b", re.IGNORECASE)


class Kind(StrEnum):
    """What the front does with a statement before the engine sees it."""

    QUERY = "QUERY"
    USE = "USE"
    SET = "SET"


@dataclass(frozen=True, slots=True)
class StatementRule:
    """`target` is the database of USE, or the key of SET and RESET; `catalog` USE's
    first part."""

    kind: Kind
    target: str = ""
    catalog: str = ""
    has_result_set: bool = True


def rule_of(statement: str) -> StatementRule:
    text = statement[_leading(statement) :]
    if found := _USE.fullmatch(text):
        return StatementRule(
            Kind.USE, _plain(found[2]), _plain(found[1] or ""), has_result_set=False
        )
    if found := _SET.match(text) or _RESET.fullmatch(text):
        return StatementRule(Kind.SET, found[1] or found[2])
    if _TIME_ZONE.match(text):
        return StatementRule(Kind.SET, "spark.sql.session.timeZone")
    return StatementRule(Kind.QUERY, has_result_set=not _RESULTLESS.match(text))


def _leading(statement: str) -> int:
    found = _LEADING.match(statement)
    return found.end() if found else 0


def _plain(name: str) -> str:
    if name.startswith("`"):
        return name[1:-1].replace("``", "`")
    return name.lower()
