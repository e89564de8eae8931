"""Rules for names of users and groups: they become principals in engines. Pure."""

from __future__ import annotations

import re

from core.errors import InvalidRequest

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}")


def is_name(text: str) -> bool:
    """Whether it may name a user or a group."""
    return bool(_NAME.fullmatch(text))


def check_user_name(name: str) -> str:
    return _check(name, "user")


def check_group_name(name: str) -> str:
    return _check(name, "group")


def _check(name: str, what: str) -> str:
    if not is_name(name):
        raise InvalidRequest(
            f"'{name[:100]}' cannot be the name of a {what}",
            code="invalid_name",
            hint="letters, digits and . _ @ + -, at most 100, not starting with a sign",
        )
    return name
