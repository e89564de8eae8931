"""`datasource.database.table`: split, quote, and the rules for names that are given.

Pure. A part with a dot (or a back-tick) is quoted by back-ticks as in Spark:
`shop`.`my.db`.`t`; a back-tick inside is doubled.
"""

from __future__ import annotations

import re

from core.errors import InvalidRequest
from core.sentences import Sentence

LAKE = "lake"
RESERVED = frozenset(
    {LAKE, "default", "spark_catalog", "system", "session", "global_temp"}
)
_DATASOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_PRINCIPAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; InvalidRequest when quoting or dots are wrong."""
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(text, at)
        if not found:
            raise _malformed(text)
        quoted, plain = found.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = found.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            raise _malformed(text)
        at += 1


def split_table_name(text: str) -> tuple[str, str, str]:
    """(datasource, database, table); two parts alone mean the lake."""
    parts = split_name(text)
    if len(parts) == 2:
        parts = (LAKE, *parts)
    if len(parts) != 3:
        raise InvalidRequest(
            "'%(text)s' does not name a table",
            text=text,
            code="invalid_name",
            hint="write datasource.database.table, or database.table for the lake; "
            "quote parts with dots by back-ticks",
        )
    datasource, database, table = parts
    return datasource, database, table


def join_name(*parts: str) -> str:
    """The dotted name, quoted only where it has to be."""
    return ".".join(
        f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part
        for part in parts
        if part
    )


_WANTED = Sentence("use lower-case letters, digits and _, for example shop_copy")


def check_datasource_name(name: str) -> str:
    """The name itself if it may be given to a new datasource."""
    if name.lower() in RESERVED:
        raise InvalidRequest(
            "'%(name)s' is a reserved datasource name",
            name=name,
            code="reserved_name",
            hint="reserved: " + ", ".join(sorted(RESERVED)),
            facts={"errors": [{"pointer": "/name", "detail": "reserved"}]},
        )
    if not _DATASOURCE.fullmatch(name):
        raise InvalidRequest(
            "'%(name)s' cannot be the name of a datasource",
            name=name,
            code="invalid_name",
            hint="a letter, then up to 62 letters, digits, _ or -",
            facts={"errors": [{"pointer": "/name", "detail": _WANTED}]},
        )
    return name


def _malformed(text: str) -> InvalidRequest:
    return InvalidRequest(
        "'%(text)s' is not a well-formed name",
        text=text,
        code="invalid_name",
        hint="write parts with dots between them; quote a part with dots by back-ticks",
    )


def is_principal_name(text: str) -> bool:
    """Whether it may name a user or a group; engines know them by it."""
    return bool(_PRINCIPAL.fullmatch(text))


def check_user_name(name: str) -> str:
    return _check_principal(name, "'%(name)s' cannot be the name of a user")


def check_group_name(name: str) -> str:
    return _check_principal(name, "'%(name)s' cannot be the name of a group")


def _check_principal(name: str, message: str) -> str:
    if not is_principal_name(name):
        raise InvalidRequest(
            message,
            name=name[:100],
            code="invalid_name",
            hint="letters, digits and . _ @ + -, at most 100, not starting with a sign",
        )
    return name
