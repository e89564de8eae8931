"""Rows of sources and tables that the database does not know, from the lake's records.

Each table is one transaction, so whoever dies between two runs it again. What comes
back is as old as its record: `ingest.pipelines.adoption` then brings it to where the
lake is. It must not know command lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from catalog.datasources import lake_database
from catalog.models import Column, Database, Datasource, SchemaVersion, Table
from core.errors import InvalidRequest, SluiceError, TransientError
from core.sentences import Sentence
from ingest.contract.members import as_data, value_of
from ingest.contract.records import SourceRecord, TableRecord
from ingest.lake.place import place_at
from ingest.lake.records import delete_record, recorded, stored_record
from ingest.models import Onboarding, Pipeline, Policy, SourceFollower, states
from ingest.pipelines import needed_resync, shards
from ingest.pipelines.onboarding import lake_table_row
from ingest.pipelines.requests import OnboardingRequest
from ingest.pipelines.schema_diff import column_rows
from ingest.planning.facts import TIMESTAMP
from ingest.planning.plan import CreateTable, PlannedColumn, TablePlan, plan_from_json

ACTOR = "rebuild"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """table: database.table of the lake. problem: why it did not come back, "" = it
    did."""

    table: str
    problem: str = ""


def rebuild(*, dry_run: bool) -> Iterator[Rebuilt]:
    """Every table that the lake has a record of and the database no row, in the order
    of their ids. With `dry_run` nothing is changed."""
    lake = settings.SLUICE_LAKE_URI
    known = set(Table.objects.filter(kind=Table.LAKE).values_list("pk", flat=True))
    onboardings: dict[int, Onboarding] = {}
    for table_id in recorded(lake, TableRecord):
        if table_id in known:
            continue
        name: str = Sentence("the table with id %(table_id)s", table_id=table_id)
        try:
            record = stored_record(lake, TableRecord, table_id)
            if record is None:
                continue  # removed meanwhile
            plan = plan_from_json(record.plan)
            name = f"{plan.database}.{plan.name}"
            if _is_removed(record, plan):
                if not dry_run:
                    delete_record(lake, TableRecord, table_id)
                continue
            _rebuild(_Lost(record, plan), onboardings, dry_run=dry_run)
        except TransientError:
            raise
        except SluiceError as error:
            yield Rebuilt(name, str(error))
        else:
            yield Rebuilt(name)


def _is_removed(record: TableRecord, plan: TablePlan) -> bool:
    """Its removal had deleted all its files, and nobody came to delete the record."""
    create: CreateTable = plan.step(CreateTable)
    return record.state == states.REMOVING and not place_at(create.path).exists()


def sources_without_password() -> list[str]:
    rows = Datasource.objects.filter(needs_password=True)
    return list(rows.order_by("name").values_list("name", flat=True))


@dataclass(frozen=True, slots=True)
class _Lost:
    record: TableRecord
    plan: TablePlan

    @property
    def is_synced(self) -> bool:
        """Else it was kept, as it is, when its sync was ended."""
        return self.record.state != states.RETIRED


def _rebuild(lost: _Lost, onboardings: dict[int, Onboarding], *, dry_run: bool) -> None:
    record = lost.record
    source = None
    if lost.is_synced:
        source = stored_record(settings.SLUICE_LAKE_URI, SourceRecord, record.source_id)
        if source is None:
            raise _cannot(
                "the lake has no record of its source, which had id %(source_id)s",
                source_id=record.source_id,
            )
    _require_free(lost, source)
    if dry_run:
        return
    with transaction.atomic():
        source_table = _source_table(record, source)
        lake_table = _lake_table(lost, source_table)
        if source is None:
            return
        onboarding = onboardings.get(source.source_id)
        onboarding = onboarding or _onboarding(source.name, source_table)
        _pipeline(lost, onboarding, source_table, lake_table)
    onboardings[source.source_id] = onboarding


def _require_free(lost: _Lost, source: SourceRecord | None) -> None:
    record, plan = lost.record, lost.plan
    create: CreateTable = plan.step(CreateTable)
    if not create.path.startswith(f"{settings.SLUICE_LAKE_URI}/"):
        raise _cannot(
            "its files are at %(path)s: a lake keeps its address", path=create.path
        )
    if Table.objects.filter(pk=record.table_id).exists():
        raise _cannot(
            "its id %(table_id)s is another table's here", table_id=record.table_id
        )
    names = Table.objects.filter(kind=Table.LAKE, name=plan.name)
    if names.filter(database__name=plan.database).exists():
        raise _cannot("another table has its name here")
    if source is None:
        return
    for known in Datasource.objects.filter(name__iexact=source.name):
        if known.pk != source.source_id:
            raise _cannot(
                "its source %(name)s was added here again: delete that source",
                name=source.name,
            )
    taken = Datasource.objects.filter(pk=source.source_id).first()
    if taken is not None and taken.name != source.name:
        raise _cannot(
            "the id of its source %(name)s is %(other)s's here",
            name=source.name,
            other=taken.name,
        )
    if taken is None:
        return
    carried = shards.carried_in(taken)
    for schema, name in _source_names(lost):
        rows = Table.objects.filter(database__datasource=taken, database__name=schema)
        if carried & {*rows.filter(name=name).values_list("pk", flat=True)}:
            raise _cannot("its source table is synced into another lake table here")


def _source_names(lost: _Lost) -> list[tuple[str, str]]:
    create: CreateTable | None = lost.plan.step(CreateTable)
    found = (
        [(one.schema, one.table) for one in create.shards if not one.gone]
        if create
        else []
    )
    return found or [(lost.record.source_database, lost.record.source_table)]


def _cannot(why: str, **named: Any) -> InvalidRequest:
    return InvalidRequest(why, **named, code="not_rebuilt")


# ------------------------------------------------------------------------- source


def _source_table(record: TableRecord, source: SourceRecord | None) -> Table:
    """Stored when it is synced. Discovery brings all that the record lacks."""
    if source is None:
        database = Database(name=record.source_database)
        return Table(
            database=database,
            name=record.source_table,
            estimated_rows=record.estimated_rows,
        )
    known = Datasource.objects.filter(pk=source.source_id).first()
    database, _ = Database.objects.get_or_create(
        datasource=known or _datasource(source), name=record.source_database
    )
    _policy(database, source)
    table, _ = Table.objects.get_or_create(
        database=database,
        name=record.source_table,
        defaults={
            "source_name": record.source_table,
            "comment": record.comment,
            "schema_fingerprint": record.source_fingerprint,
            "estimated_rows": record.estimated_rows,
        },
    )
    return table


def _shard(first: Table, schema: str, name: str) -> Table:
    """Its columns are those of the first until it is discovered."""
    database, _ = Database.objects.get_or_create(
        datasource=first.database.datasource, name=schema
    )
    table, _ = Table.objects.get_or_create(
        database=database,
        name=name,
        defaults={
            "source_name": name,
            "schema_fingerprint": first.schema_fingerprint,
        },
    )
    return table


def _datasource(source: SourceRecord) -> Datasource:
    row = Datasource.objects.create(
        pk=source.source_id,
        name=source.name,
        kind=source.kind,
        host=source.host,
        port=source.port,
        database=source.database,
        username=source.username,
        tls=source.tls,
        options=dict(source.options),
        needs_password=source.has_password,
    )
    if source.is_log_stopped:
        SourceFollower.objects.create(datasource=row, desired=SourceFollower.STOPPED)
    if given := source.policies.get(""):
        Policy.objects.create(datasource=row, given=dict(given))
    return row


def _policy(database: Database, source: SourceRecord) -> None:
    """Of a database that was there nobody's decision is changed."""
    if given := source.policies.get(database.name):
        Policy.objects.get_or_create(
            datasource=database.datasource,
            database=database,
            defaults={"given": dict(given)},
        )


# --------------------------------------------------------------------------- lake


def _lake_table(lost: _Lost, source: Table) -> Table:
    record, plan = lost.record, lost.plan
    table = lake_table_row(source, plan, lake_database(plan.database))
    table.pk = record.table_id
    table.comment = record.comment
    table.schema_version = record.schema_version
    # a removal that drops data hides the table, and is over now
    had_data = record.state == states.REMOVING and bool(record.instant)
    table.is_queryable = record.is_queryable or had_data
    table.status = record.state
    table.status_reason = record.status_reason
    table.last_commit_instant = record.instant
    table.last_commit_epoch = record.epoch
    table.last_commit_position = {"to": record.position} if record.instant else None
    table.save(force_insert=True)
    columns = value_of(list[PlannedColumn], list(record.columns))
    Column.objects.bulk_create(column_rows(table, columns))
    SchemaVersion.objects.create(
        table=table, version=table.schema_version, columns=as_data(columns)
    )
    return table


def _onboarding(source: str, table: Table) -> Onboarding:
    """One for all tables of a source that a run brings back."""
    asked = OnboardingRequest(source, (f"{table.database.name}.*",), approve=True)
    now = timezone.now()
    return Onboarding.objects.create(
        datasource=table.database.datasource,
        request=asked.to_data() | {"skipped": [], "uncarried": []},
        requested_by=ACTOR,
        approved_by=ACTOR,
        approved_at=now,
    )


def _pipeline(lost: _Lost, onboarding: Onboarding, source: Table, lake: Table) -> None:
    record = lost.record
    row = Pipeline(
        onboarding=onboarding,
        source_table=source,
        lake_table=lake,
        capture=record.capture,
        plan=dict(record.plan),
        policy=dict(record.policy),
        drift=dict(record.drift),
        consistency=record.consistency,
        load_name=record.load_name,
        bound=record.bound,
        position=record.position,
    )
    row.state, row.status_reason, row.resume_event = _state(row, record)
    if row.state in states.LOADED and row.capture == TIMESTAMP:
        row.due_at = timezone.now()
    row.save()
    if shards.is_sharded(row):
        shards.store(row, [_shard(source, *name) for name in _source_names(lost)])
    Table.objects.filter(pk=lake.pk).update(
        status=row.state, status_reason=row.status_reason
    )


def _state(row: Pipeline, record: TableRecord) -> tuple[str, str, str]:
    """State, reason and what a resume does. Jobs are lost, so what was under way goes
    on from what the lake has, or waits for a decision."""
    is_once = row.capture == "snapshot"
    match record.state:
        case states.APPROVED | states.SNAPSHOTTING:
            return states.APPROVED, "", ""
        case states.REMOVING:
            why = "it was being removed when the database was lost: remove it again"
            return states.PAUSED, why, "resume_catch_up"
        case states.LIVE | states.CATCHING_UP | states.RESYNCING:
            if why := needed_resync.why_needed(row):
                return states.NEEDS_RESYNC, why, ""
            return (states.LIVE if is_once else states.CATCHING_UP), "", ""
    return record.state, record.status_reason, record.resume_event
