"""What a kind of datasource declares: typed fields, an allow-list of options, types.

Users never give URLs or driver properties. Pure; the kinds themselves are listed in
`catalog.sources.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from core.errors import InvalidRequest

TLS = ("off", "require", "verify")
OptionType = Literal["integer", "strings"]
OptionValue = int | list[str]


@dataclass(frozen=True, slots=True)
class Option:
    """One typed option. For integers `minimum`..`maximum` holds, both included."""

    name: str
    type: OptionType
    default: OptionValue
    meaning: str
    minimum: int = 0
    maximum: int = 0


class SourceTypes(Protocol):
    """The `types` module of a kind's folder, for types that the catalog has stored."""

    def cannot_hold(self, source_type: str, lake: str) -> str:
        """Which values of a column's type have no place in its lake type; "" = none."""
        ...


class Privileges(Protocol):
    """The `privileges` module of a kind's folder: statements for an administrator of
    the source, to read and paste. Sluice never runs them."""

    def script(self, username: str, database: str) -> str:
        """'What this user needs', as a commented script."""
        ...

    def select_grant(
        self, username: str, database: str, table: str, columns: Sequence[str] = ()
    ) -> str:
        """Lets the user read one table, or only these columns of it."""
        ...

    def structure_grant(self, username: str, database: str, table: str) -> str:
        """Shows the user all columns and indexes of a table, and none of its rows;
        "" = everybody sees them."""
        ...

    def full_rows_logged(self, database: str, table: str) -> str:
        """Has the log carry the whole former row of each change; "" = it does."""
        ...

    def full_rows_of_parts_logged(self, database: str, table: str) -> str:
        """The same of the partitions that the table has now; "" = it does."""
        ...

    def logged(self, tables: Sequence[tuple[str, str]]) -> str:
        """Has the log of these, each (database, table), be sent; "" = it is."""
        ...

    def all_rows_grant(self, username: str) -> str:
        """Lets the user see rows that row security hides; "" = nothing hides rows."""
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds that share one dialect of SQL and one reader of rows in `ingest`."""

    name: str
    title: str


COMMON_OPTIONS = (
    Option("include_databases", "strings", [], "discover only these; empty = all"),
    Option("exclude_databases", "strings", [], "never discover these"),
    Option(
        "max_parallel_reads",
        "integer",
        2,
        "connections that a load may hold at once",
        minimum=1,
        maximum=32,
    ),
    Option(
        "max_rows_per_second",
        "integer",
        0,
        "read throttle per load; 0 = none",
        minimum=0,
        maximum=10_000_000,
    ),
    Option(
        "connect_timeout_seconds",
        "integer",
        10,
        "longest wait for a connection",
        minimum=1,
        maximum=120,
    ),
    Option(
        "statement_timeout_seconds",
        "integer",
        0,
        "longest statement of discovery and tests at the source; 0 = its default",
        minimum=0,
        maximum=86_400,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """A kind of source.

    folder          the package that has its `discoverer` module
    needs_database  whether a datasource is one database of a server; else it is the
                    server, whose databases are the middle level
    shares_snapshots  whether several connections can read at one moment without a
                    lock on the server
    hides_role      whether a login may be kept from seeing that it is on a replica
    """

    name: str
    title: str
    default_port: int
    folder: str
    family: Family
    types: SourceTypes
    privileges: Privileges
    database_means: str = "database"
    options: tuple[Option, ...] = COMMON_OPTIONS
    needs_database: bool = True
    shares_snapshots: bool = True
    hides_role: bool = False


def checked_options(
    kind: SourceKind, given: Mapping[str, object]
) -> dict[str, OptionValue]:
    """The options with defaults filled in; all faults are named at once."""
    known = {option.name: option for option in kind.options}
    faults = [
        _fault(name, f"not an option of {kind.name}")
        for name in given
        if name not in known
    ]
    values: dict[str, OptionValue] = {}
    for option in kind.options:
        value = given.get(option.name, option.default)
        wrong = _CHECKS[option.type](option, value)
        if wrong:
            faults.append(_fault(option.name, wrong))
        else:
            values[option.name] = value  # type: ignore[assignment]
    if faults:
        raise InvalidRequest(
            f"{len(faults)} option(s) of the datasource are wrong",
            code="invalid_options",
            hint="see GET /api/v1/datasources/kinds",
            facts={"errors": faults},
        )
    return values


def json_schema(kind: SourceKind) -> dict[str, object]:
    """What POST /datasources takes for this kind, as JSON Schema 2020-12."""
    text = {"type": "string"}
    database = ["database"] if kind.needs_database else []
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.title,
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "kind", "host", *database, "username"],
        "properties": {
            "name": {**text, "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,62}$"},
            "kind": {"const": kind.name},
            "host": {**text, "maxLength": 253},
            "port": {
                "type": "integer",
                "minimum": 1,
                "maximum": 65_535,
                "default": kind.default_port,
            },
            "database": {**text, "description": kind.database_means},
            "username": text,
            "password": {**text, "writeOnly": True},
            "tls": {"enum": list(TLS), "default": "off"},
            "options": {
                "type": "object",
                "additionalProperties": False,
                "properties": {o.name: _option_schema(o) for o in kind.options},
            },
        },
    }


def _option_schema(option: Option) -> dict[str, object]:
    shape: dict[str, object] = {
        "default": option.default,
        "description": option.meaning,
    }
    if option.type == "strings":
        return {"type": "array", "items": {"type": "string"}, **shape}
    bounds = {"minimum": option.minimum, "maximum": option.maximum}
    return {"type": "integer", **shape, **bounds}


def _wrong_integer(option: Option, value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and option.minimum <= value <= option.maximum:  # type: ignore[operator]
        return ""
    return f"an integer from {option.minimum} to {option.maximum}"


def _wrong_strings(_: Option, value: object) -> str:
    is_right = (
        isinstance(value, list)
        and len(value) <= 1_000
        and all(isinstance(item, str) and 0 < len(item) <= 200 for item in value)
    )
    return "" if is_right else "a list of names"


_CHECKS: dict[OptionType, Callable[[Option, object], str]] = {
    "integer": _wrong_integer,
    "strings": _wrong_strings,
}


def _fault(name: str, detail: str) -> dict[str, str]:
    return {"pointer": f"/options/{name}", "detail": detail}
