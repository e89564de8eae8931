"""All kinds of datasources, one line each, and questions to them by name. Pure.

A new kind is a folder beside `postgresql/` and a line in `KINDS`. A kind is looked up
here by its name, so an unknown one is the same error everywhere.
"""

from __future__ import annotations

from functools import lru_cache

from catalog.schema.limits import Footprint
from catalog.schema.types import Lossy
from catalog.sources.kinds import SourceKind
from catalog.sources.mariadb.kind import MARIADB, MYSQL
from catalog.sources.postgresql.kind import POSTGRESQL
from core.errors import InvalidRequest

KINDS: dict[str, SourceKind] = {
    kind.name: kind for kind in (POSTGRESQL, MARIADB, MYSQL)
}
# Planned: REST answers 501 for them, and 400 for what nobody knows.
LATER = {
    "sqlserver": "SQL Server",
    "oracle": "Oracle",
    "hana": "SAP HANA",
    "mongodb": "MongoDB",
    "starrocks": "StarRocks",
    "tablestore": "Tablestore",
    "kafka": "Kafka",
}


def kind_named(name: str) -> SourceKind:
    """The kind; InvalidRequest with `not_yet` or `unknown_kind` otherwise: a guess
    would take its values by another one's rules."""
    if kind := KINDS.get(name):
        return kind
    if title := LATER.get(name):
        raise InvalidRequest(
            f"{title} sources come with a later release",
            code="not_yet",
            hint="available now: " + ", ".join(KINDS),
        )
    raise InvalidRequest(
        f"'{name}' is not a kind of datasource",
        code="unknown_kind",
        hint="see GET /api/v1/datasources/kinds",
        facts={"errors": [{"pointer": "/kind", "detail": "unknown"}]},
    )


def family_of(kind: str) -> str:
    """The name under which `ingest` has the dialect and the reader of this kind."""
    return kind_named(kind).family.name


def footprint_of(kind: str, max_parallel_reads: int) -> Footprint:
    """Where connections share a snapshot, one more transaction holds it, without a
    lock."""
    readers = max(1, max_parallel_reads)
    return Footprint(readers, 2, readers + int(kind_named(kind).shares_snapshots))


@lru_cache(maxsize=4096)
def cannot_hold(source_type: str, lake: str, *, kind: str) -> str:
    """Which values of a column's type have no place in its lake type; "" = none."""
    return kind_named(kind).types.cannot_hold(source_type, lake)


def proposed_choice(source_type: str, lake: str, *, kind: str) -> Lossy:
    """What to do with values the lake type cannot hold, unless the plan names one.

    A number too wide for any lake type became a string: that is a choice as well.
    """
    if not lake:
        return ""
    if lake == "string" and source_type.startswith(("numeric", "decimal")):
        return "string"
    return "null" if cannot_hold(source_type, lake, kind=kind) else ""
