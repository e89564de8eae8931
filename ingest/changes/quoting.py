"""Quoting for PostgreSQL: any name and any text becomes one safe token. Pure."""

from __future__ import annotations

from core.errors import InvalidRequest


def name(text: str) -> str:
    """A quoted identifier. Names with NUL cannot exist and are refused."""
    _refuse_nul(text)
    return '"' + text.replace('"', '""') + '"'


def qualified(schema: str, table: str) -> str:
    return f"{name(schema)}.{name(table)}"


def literal(text: str) -> str:
    """A string literal, whatever `standard_conforming_strings` says."""
    _refuse_nul(text)
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return " E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def _refuse_nul(text: str) -> None:
    if "\0" in text:
        raise InvalidRequest("a NUL character cannot be part of SQL")
