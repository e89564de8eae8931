"""What a discovery changes for onboardings.

Tables that came to a source after an onboarding whose patterns mean them join it, are
proposed, or are left alone, as the policy `new_tables` says. A table that was ever
onboarded is not new, also when it was removed since. Plans that were blocked are made
anew: what they lacked may be there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Q, QuerySet

from catalog.access.policy import Principal
from catalog.access.principals import principal_for
from catalog.compiled import AnyRow
from catalog.discovery.store import NOT_SYNCED
from catalog.models import Database, Datasource, Table
from core.errors import SluiceError
from core.jobs.moves import SCHEDULE
from ingest.models import Onboarding, Pipeline, Shard
from ingest.models.states import RETIRED
from ingest.pipelines import plan_overrides, schema_diff, shard_joins, shards
from ingest.pipelines.deferred_onboardings import OPERATOR
from ingest.pipelines.onboarding import start_onboarding
from ingest.pipelines.onboarding_rights import require_plan
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.requests import parse_request
from ingest.planning.facts import LOG
from ingest.planning.patterns import select

log = logging.getLogger(__name__)

# Of sources: each of them is looked through in a transaction of its own.
PAGE = 50
# Tables of one onboarding; the rest come with the next discovery.
MOST_TABLES = 5_000


@dataclass(frozen=True, slots=True)
class _Found:
    database: Database
    name: str


def take_new_tables() -> int:
    """Look through the sources that were discovered since; how many tables came."""
    if not _is_any_left():
        return 0
    ids = _not_looked_through().order_by("datasource_id").distinct()
    found = 0
    for source_id in list(ids.values_list("datasource_id", flat=True)[:PAGE]):
        found += _look_through(source_id)
    return found


def _not_looked_through() -> QuerySet[Onboarding]:
    is_older = Q(looked_at=None) | Q(looked_at__lt=F("datasource__discovered_at"))
    return Onboarding.objects.filter(is_older, datasource__discovered_at__isnull=False)


_is_any_left = AnyRow(_not_looked_through)


def _look_through(source_id: int) -> int:
    """Another process that looks at this source has it alone."""
    with transaction.atomic():
        mine = Datasource.objects.select_for_update(skip_locked=True)
        source = mine.filter(pk=source_id).first()
        if source is None or source.discovered_at is None:
            return 0
        rows = list(_not_looked_through().filter(datasource=source).order_by("pk"))
        for row in rows:
            if row.created_at < source.discovered_at:
                plan_overrides.plan_blocked(row, actor=SCHEDULE)
        found = _take(source, [row for row in rows if row.approved_at])
        pks = [row.pk for row in rows]
        Onboarding.objects.filter(pk__in=pks).update(looked_at=source.discovered_at)
    return found


def _take(source: Datasource, rows: Sequence[Onboarding]) -> int:
    rows = sorted(rows, key=lambda row: row.created_at)
    rows = [row for row in rows if any("*" in one for one in row.request["include"])]
    if not rows:
        return 0
    tables, policies = _never_onboarded(source), Policies([source.pk])
    wants = {
        one: policies.of_database(one).values["new_tables"]
        for one in {table.database for table in tables}
    }
    count = 0
    for row in rows:
        taken = _meant(row, tables)
        if row.request.get("shards"):
            # told where its tables are, unless they join
            carried = row.tables.exclude(lake_table=None).exclude(state=RETIRED)
            count += sum(_join(row, one, policies) for one in carried)
            schema_diff.report_compared(carried)
            tables = [table for table in tables if table not in {*taken}]
            continue
        for wanted in ("join", "ask"):
            names = [
                f"{table.database.name}.{table.name}"
                for table in taken
                if wants[table.database] == wanted
            ][:MOST_TABLES]
            if names and _onboard(row, names, joins=wanted == "join"):
                count += len(names)
        known = {*taken}
        tables = [table for table in tables if table not in known]
    return count


def _join(row: Onboarding, pipeline: Pipeline, policies: Policies) -> int:
    """How many shards join a table, also such as waited to be read: by the rights of
    who approved it, as these are now; where that fails they are told."""
    new = shards.not_taken(pipeline)
    waiting = shard_joins.unread(pipeline)
    wanted = {
        policies.of_database(one).values["new_tables"]
        for one in {table.database for table in new or shards.tables_of(pipeline)[:1]}
    }
    if not (new or waiting) or wanted != {"join"}:
        return 0
    principal = _approver(row)
    try:
        with transaction.atomic():
            require_plan(principal, row)
            shard_joins.start_by_policy(pipeline, actor=principal.name)
    except SluiceError as error:
        log.warning(
            "%d new shards of %s do not join automatically: %s",
            len(new), pipeline.lake_table, error,
        )  # fmt: skip
        return 0
    return len(new)


def _never_onboarded(source: Datasource) -> list[_Found]:
    rows = Table.objects.filter(~Q(status__in=NOT_SYNCED), database__datasource=source)
    known = Pipeline.objects.filter(source_table__database__datasource=source)
    rows = rows.exclude(pk__in=known.values("source_table"))
    shards = Shard.objects.filter(pipeline__in=known)
    rows = rows.exclude(pk__in=shards.values("source_table"))
    # a star in a table's own name would mean others, too
    rows = rows.exclude(name__contains="*").exclude(database__name__contains="*")
    # all of them: those that no onboarding means stay, and would hide newer ones
    names = rows.order_by("pk").values_list("database", "name")
    databases = source.databases.select_related("datasource").in_bulk()
    return [_Found(databases[database], name) for database, name in names]


def _meant(row: Onboarding, tables: Sequence[_Found]) -> list[_Found]:
    patterns = tuple(one for one in row.request["include"] if "*" in one)
    found = select(
        [(table.database.name, table.name) for table in tables],
        include=patterns,
        exclude=tuple(row.request.get("exclude") or ()),
    )
    return [tables[index] for index in found.matched]


def _onboard(row: Onboarding, names: Sequence[str], *, joins: bool) -> bool:
    """With what the onboarding gives its tables. They join by the rights of who
    approved it, as these are now; where that fails they are proposed."""
    asked = row.request
    body = {
        "datasource": row.datasource.name,
        "include": list(names),
        "capture": _capture_of(row) if joins else asked.get("capture"),
        "schedule": asked.get("schedule"),
        "target_database": asked.get("target_database"),
        "defaults": asked.get("defaults"),
        "approve": joins,
    }
    # proposing gives nobody anything: who approves it is asked for rights then
    principal = _approver(row) if joins else Principal(SCHEDULE, is_admin=True)
    try:
        with transaction.atomic():
            start_onboarding(parse_request(body), principal=principal)
    except SluiceError as error:
        log.warning(
            "%d new tables of %s, as %s, %s: %s",
            len(names), row.datasource.name, names[0],
            "do not join automatically" if joins else "cannot be onboarded", error,
        )  # fmt: skip
        return joins and _onboard(row, names, joins=False)
    return True


def _capture_of(row: Onboarding) -> str | None:
    """How tables join. Where each had the choice and logs are followed, one that cannot
    be followed waits with what it lacks: a sync on request is one nobody requests."""
    asked = row.request
    is_said = any(asked.get(name) for name in ("capture", "schedule", "defaults"))
    follows = not is_said and row.tables.filter(capture=LOG).exists()
    return LOG if follows else asked.get("capture")


def _approver(row: Onboarding) -> Principal:
    if row.approved_by == OPERATOR.name:
        return OPERATOR
    return principal_for(row.approved_by)
