"""From catalog rows to planning's facts and targets, in bulk: few statements however
many tables a request names. Decides nothing; the rules are in `ingest.planning`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db.models import Min, Q, TextField, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Concat

from catalog.datasources import lake_datasource
from catalog.discovery.facts import log_of, schema_of
from catalog.discovery.store import NOT_SYNCED
from catalog.models import Database, Datasource, Table
from catalog.schema.naming import (
    RESERVED_DATABASES,
    lake_columns,
    lake_databases,
    lake_tables,
    plain_name,
)
from catalog.schema.source_log import Lack
from catalog.schema.types import TableSchema
from catalog.sources.registry import proposed_choice
from core.errors import InvalidRequest
from core.sentences import Sentence, restored
from ingest.lake.place import place_at
from ingest.models import Pipeline
from ingest.models.states import RETIRED
from ingest.planning.facts import TableFacts, Target

SourceName = tuple[str, str]


def facts_of(
    tables: Sequence[Table], schemas: Mapping[int, TableSchema] | None = None
) -> list[TableFacts]:
    """One TableFacts per row (columns prefetched, or their schemas given by the rows'
    ids), in the same order."""
    known = schemas or {}
    return [table_facts(table, known.get(table.pk)) for table in tables]


def table_facts(table: Table, schema: TableSchema | None = None) -> TableFacts:
    """Facts of a row of kind source as the last discovery saw it."""
    source, kept = table.database.datasource, table.identity
    return TableFacts(
        database=table.database.name,
        name=table.name,
        schema=schema_of(table) if schema is None else schema,
        estimated_rows=table.estimated_rows,
        estimated_bytes=table.estimated_bytes,
        unique_indexes=tuple(tuple(n) for n in kept.get("unique_indexes", ())),
        indexed=frozenset(kept.get("indexed", ())),
        fingerprint=table.schema_fingerprint,
        sees_all_transactions=kept.get("sees_all_transactions"),
        source_kind=source.kind,
        relation=kept.get("relation", "table"),
        traits=frozenset(kept.get("traits", ())),
        key_forms=kept.get("key_forms", {}),
        is_standby=kept.get("is_standby"),
        zone_delay=kept.get("zone_delay", 0),
        hidden=tuple(kept.get("hidden", ())),
        hidden_key=tuple(kept.get("hidden_key", ())),
        hides_indexes=kept.get("hides_indexes", False),
        username=source.username,
        log=log_of(table),
        log_lacks=tuple(
            Lack(restored(reason), statement)
            for reason, statement in kept.get("log_lacks") or ()
        ),
    )


def targets_of(
    source: Datasource, facts: Sequence[TableFacts], *, target_database: str | None
) -> list[Target]:
    """Derived lake names and paths; names given before are kept and never reused."""
    taken = _Taken(source)
    databases = _databases(source, facts, taken, target_database)
    names: dict[SourceName, str] = {}
    used = taken.tables(databases.values())
    for database, wanted in _grouped(facts, databases).items():
        kept_free = _kept_free(source, wanted)
        names |= lake_tables(wanted, taken=used[database] | kept_free)
    return [
        _target(
            f,
            databases[f.database],
            names[(f.database, f.name)],
            kind=source.kind,
            is_chosen=target_database is not None,
        )
        for f in facts
    ]


def _kept_free(source: Datasource, wanted: Sequence[SourceName]) -> set[str]:
    """Lake names that tables of the same schemas have already at the source: they are
    theirs, whichever is onboarded first."""
    odd = {
        (schema, plain_name(name))
        for schema, name in wanted
        if plain_name(name) != name
    } - set(wanted)
    if not odd:
        return set()
    rows = Table.objects.filter(
        database__datasource=source,
        database__name__in={schema for schema, _ in odd},
        name__in={name for _, name in odd},
    )
    pairs = rows.values_list("database__name", "name")
    return {name for schema, name in pairs if (schema, name) in odd}


class _Taken:
    """Lake names in use or promised by a plan that is not retired."""

    def __init__(self, source: Datasource) -> None:
        lake = lake_datasource()
        carried = Pipeline.objects.exclude(state=RETIRED)
        # What is approved has its database in the lake; only plans are looked into.
        self._promised = carried.filter(lake_table=None)
        self.databases: set[str] = {
            *Database.objects.filter(datasource=lake).values_list("name", flat=True),
            *self._promised.values_list("plan__database", flat=True).distinct(),
        }
        # where somebody chose to send one table says nothing about the next one
        mine = Q(source_table__database__datasource=source)
        derived = Pipeline.objects.filter(mine, plan__is_target_chosen=False)
        names = derived.values_list("source_table__database__name", "plan__database")
        pairs = names.annotate(first=Min("pk")).order_by("first")
        self.pinned: dict[SourceName, str] = {}
        for schema, plan, _ in pairs.exclude(state=RETIRED):
            self.pinned.setdefault((source.name, schema), plan)
        # of what was removed the name is free, unless it is another source's by now
        left = {schema: plan for schema, plan, _ in pairs.filter(state=RETIRED)}
        theirs = carried.exclude(mine).filter(plan__database__in=left.values())
        lost = set(theirs.values_list("plan__database", flat=True))
        for schema, plan in left.items():
            if plan not in lost:
                self.pinned.setdefault((source.name, schema), plan)

    def tables(self, databases: Iterable[str]) -> dict[str, set[str]]:
        """By database, of these alone: the lake may hold a million others."""
        wanted = sorted(set(databases))
        found: dict[str, set[str]] = defaultdict(set)
        ids = Database.objects.filter(datasource=lake_datasource(), name__in=wanted)
        rows = Table.objects.filter(database__in=list(ids))
        for database, table in rows.values_list("database__name", "name"):
            found[database].add(table)
        planned = self._promised.filter(plan__database__in=wanted)
        for database, name in planned.values_list("plan__database", "plan__name"):
            found[database].add(name)
        return found


def _databases(
    source: Datasource,
    facts: Sequence[TableFacts],
    taken: _Taken,
    target_database: str | None,
) -> dict[str, str]:
    schemas = list(dict.fromkeys(f.database for f in facts))
    if target_database is not None:
        _require_usable(target_database)
        return dict.fromkeys(schemas, target_database)
    keys = [(source.name, schema) for schema in schemas]
    others = taken.databases - set(taken.pinned.values())
    pinned = {key: name for key, name in taken.pinned.items() if key in set(keys)}
    found = lake_databases(keys, pinned=pinned, taken=others)
    return {schema: found[(source.name, schema)] for schema in schemas}


def is_usable_database(name: str) -> bool:
    """Whether the lake can have a database of this name."""
    return plain_name(name) == name and name not in RESERVED_DATABASES


def _require_usable(name: str) -> None:
    if not is_usable_database(name):
        raise InvalidRequest(
            "'%(name)s' cannot be a lake database",
            name=name,
            code="invalid_name",
            hint=Sentence(
                "use '%(name)s', say: lower case letters, digits and _",
                name=plain_name(name),
            ),
            pointer="/target_database",
        )


def _grouped(
    facts: Iterable[TableFacts], databases: dict[str, str]
) -> dict[str, list[SourceName]]:
    groups: dict[str, list[SourceName]] = defaultdict(list)
    for each in facts:
        groups[databases[each.database]].append((each.database, each.name))
    return groups


def _target(
    facts: TableFacts, database: str, name: str, *, kind: str, is_chosen: bool
) -> Target:
    columns = facts.schema.columns
    return Target(
        database=database,
        name=name,
        path=f"{settings.SLUICE_LAKE_URI}/{database}/{name}",
        column_names=lake_columns([c.source_name for c in columns]),
        lossy={
            c.source_name: proposed_choice(c.source_type, c.type, kind=kind)
            for c in columns
        },
        is_chosen=is_chosen,
    )


def pin_targets(
    targets: Sequence[Target], lakes: Sequence[str | None], sources: Sequence[str]
) -> list[Target]:
    """The targets under the lake names that people gave ("database.table").

    sources: names for errors. InvalidRequest for names that the lake cannot have or
    that another table has.
    """
    if not any(lakes):
        return list(targets)
    given = {lake for lake in lakes if lake}
    taken = Pipeline.objects.exclude(state=RETIRED).annotate(
        place=Concat(
            KT("plan__database"),
            Value("."),
            KT("plan__name"),
            output_field=TextField(),
        )
    )
    used = set(taken.filter(place__in=given).values_list("place", flat=True))
    pinned: list[Target] = []
    for target, lake, source in zip(targets, lakes, sources, strict=True):
        if not lake:
            pinned.append(target)
            continue
        database, name = _lake_name(lake, source)
        if lake in used:
            raise _lake_refusal(
                source, "another table is synced as lake.%(lake)s", lake=lake
            )
        used.add(lake)
        pinned.append(renamed(target, database, name, is_chosen=True))
    return pinned


def renamed(target: Target, database: str, name: str, *, is_chosen: bool) -> Target:
    path = f"{settings.SLUICE_LAKE_URI}/{database}/{name}"
    return replace(target, database=database, name=name, path=path, is_chosen=is_chosen)


def _lake_name(text: str, source: str) -> tuple[str, str]:
    database, _, name = text.partition(".")
    is_right = is_usable_database(database) and plain_name(name) == name
    if not name or not is_right:
        raise _lake_refusal(
            source, "'%(text)s' cannot be a table of the lake", text=text
        )
    return database, name


def _lake_refusal(source: str, detail: str, **named: Any) -> InvalidRequest:
    return InvalidRequest(
        detail,
        **named,
        code="invalid_lake_name",
        hint="database.table in lower case letters, digits and _; leave it away for "
        "the derived name",
        facts={"field": "lake", "table": source},
    )


def free_bytes() -> int | None:
    """Space left where the lake lies; None when that cannot be told."""
    return place_at(settings.SLUICE_LAKE_URI).free_bytes()


def names_of(source: Datasource) -> list[tuple[int, str, str]]:
    """(id, database, table) of every table of a source that can be carried."""
    return list(
        Table.objects.filter(~Q(status__in=NOT_SYNCED), database__datasource=source)
        .order_by("database__name", "name")
        .values_list("pk", "database__name", "name")
    )
