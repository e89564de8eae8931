"""Policies as rows: read along the chain, changed, and followed at once.

A change takes effect at the next decision: the next claim, the next end of a sync,
and the time of the next sync of tables that wait for one. Must not know REST.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.utils import timezone

from catalog.compiled import CompiledValues
from catalog.models import Database, Datasource
from core import outbox
from core.errors import InvalidRequest
from core.jobs import TERMINAL
from core.models import Job
from core.outbox import NewEvent
from ingest.contract.job import SYNC
from ingest.models import Pipeline, Policy
from ingest.models.states import LIVE, RETIRED
from ingest.pipelines.policies.policy import (
    OWN,
    TABLE_KEYS,
    Effective,
    Level,
    changed,
    effective,
)
from ingest.pipelines.policies.schedule import Schedule, every_seconds_of, next_runs
from ingest.planning.facts import LOG

# stands for the id of any datasource
_ANY = -1


class Policies:
    """Policies of some datasources and their databases, read in one statement."""

    def __init__(self, datasource_ids: Iterable[int]) -> None:
        ids = set(datasource_ids)
        rows = _of_one().all(*ids) if len(ids) == 1 else _rows(ids)
        self.given: dict[tuple[int, int | None], Mapping[str, Any]] = {
            (datasource, database): given for datasource, database, given in rows
        }

    def of_pipeline(self, pipeline: Pipeline) -> Effective:
        """`pipeline` with its source table, database and datasource."""
        return self.of_database(pipeline.source_table.database, pipeline.policy)

    def of_database(
        self, database: Database, own: Mapping[str, Any] | None = None
    ) -> Effective:
        """What a table of this database gets, given `own` settings of the table."""
        table = Level(OWN, own or {})
        return effective([table, *self._above(database)])

    def of_datasource(self, datasource: Datasource) -> Effective:
        return effective([self._of_source(datasource)])

    def _above(self, database: Database) -> list[Level]:
        source = database.datasource
        given = self.given.get((source.pk, database.pk), {})
        name = f"database {source.name}.{database.name}"
        return [Level(name, given), self._of_source(source)]

    def _of_source(self, source: Datasource) -> Level:
        given = self.given.get((source.pk, None), {})
        return Level(f"datasource {source.name}", given)


def _rows(ids: Iterable[int]) -> Any:
    rows = Policy.objects.filter(datasource__in=ids)
    return rows.values_list("datasource_id", "database_id", "given")


@cache
def _of_one() -> CompiledValues[tuple[Any, ...]]:
    """Each sync asks for those of its source."""
    return CompiledValues(_rows([_ANY]), [_ANY], lambda *row: row)


def policy_of(pipeline: Pipeline) -> Effective:
    """What counts for this table now; one statement."""
    return Policies([pipeline.source_table.database.datasource_id]).of_pipeline(
        pipeline
    )


PAGE = 1000


def setting_as_text(key: str) -> Coalesce:
    """The same of one setting for pipelines, as JSON text; NULL = the default."""
    source = OuterRef("source_table__database__datasource")
    above = Policy.objects.filter(datasource=source).annotate(text=KT(f"given__{key}"))
    here = above.filter(database=OuterRef("source_table__database"))
    return Coalesce(
        KT(f"policy__{key}"),
        Subquery(here.values("text")),
        Subquery(above.filter(database=None).values("text")),
    )


def given_at(datasource: Datasource, database: Database | None) -> Mapping[str, Any]:
    """What is given at exactly this level."""
    row = Policy.objects.filter(datasource=datasource, database=database).first()
    return row.given if row else {}


# ------------------------------------------------------------------------ changes


def change_policy(
    datasource: Datasource, database: Database | None, change: Any
) -> Mapping[str, Any]:
    """Merge `change` into the level's settings; tables below follow at once."""
    with transaction.atomic():
        # one change of a source's policies at a time
        Datasource.objects.select_for_update().get(pk=datasource.pk)
        given = changed(given_at(datasource, database), change)
        before = Policies([datasource.pk])
        Policy.objects.update_or_create(
            datasource=datasource, database=database, defaults={"given": given}
        )
        Datasource.objects.filter(pk=datasource.pk).update(is_recorded=False)
        below = Pipeline.objects.filter(source_table__database__datasource=datasource)
        if database is not None:
            below = below.filter(source_table__database=database)
        if "schedule" in change:
            _reschedule(below, before.of_pipeline)
        _verify_anew(below, change)
    return given


def change_table_policy(pipeline: Pipeline, change: Any) -> Mapping[str, Any]:
    """The same for one table, which is then up to date in memory too."""
    if isinstance(change, Mapping) and change.get("schedule") is not None:
        _require_syncs(pipeline.capture)
    with transaction.atomic():
        row = Pipeline.objects.select_for_update().get(pk=pipeline.pk)
        pipeline.policy = changed(row.policy, change, known=TABLE_KEYS)
        before = Policies([pipeline.source_table.database.datasource_id])
        Pipeline.objects.filter(pk=pipeline.pk).update(policy=pipeline.policy)
        if "schedule" in change:
            _reschedule(
                Pipeline.objects.filter(pk=pipeline.pk),
                lambda each: before.of_database(each.source_table.database, row.policy),
            )
        _verify_anew(Pipeline.objects.filter(pk=pipeline.pk), change)
    given: Mapping[str, Any] = pipeline.policy
    return given


def _require_syncs(capture: str) -> None:
    """A schedule needs a way of capture that has syncs."""
    if capture == "timestamp":
        return
    detail = "a table that is loaded once has no syncs, so it takes no schedule"
    code = "not_continuous"
    hint = "use capture 'timestamp', or :resync when a fresh copy is wanted"
    if capture == LOG:
        detail = "a table that follows its source's log has no syncs to schedule"
        code = "follows_log"
        hint = "its changes arrive as they happen; 'freshness_seconds' says how soon"
    raise InvalidRequest(
        detail,
        code=code,
        hint=hint,
        pointer="/schedule",
    )


Before = Callable[[Pipeline], Effective]


def _reschedule(pipelines: QuerySet[Pipeline], before: Before) -> None:
    """New times for LIVE tables whose schedule is now another one.

    One whose sync is queued or running gets its time when that ends; one that
    catches up, or that failed and tries again, keeps its own.
    """
    waiting = pipelines.filter(state=LIVE, capture="timestamp", failures=0)
    pks = list(waiting.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(pks), PAGE):
        rows = list(
            Pipeline.objects.select_for_update(of=("self",))
            .filter(pk__in=pks[start : start + PAGE], state=LIVE, failures=0)
            .select_related("source_table__database__datasource")
            .order_by("pk")
        )
        busy = _in_sync(rows)
        _set_due([r for r in rows if r.lake_table_id not in busy], before)


def _verify_anew(pipelines: QuerySet[Pipeline], change: Any) -> None:
    """When each is verified next is decided when it is looked at, not here: there may
    be a million of them."""
    if not {"verify_every", "maintenance_window"}.isdisjoint(change):
        pipelines.exclude(state=RETIRED).update(verify_at=timezone.now())


def _in_sync(rows: list[Pipeline]) -> set[int | None]:
    idle = [str(row.lake_table_id) for row in rows if row.due_at is None]
    open_syncs = Job.objects.filter(kind=SYNC, subject_id__in=idle).exclude(
        state__in=sorted(TERMINAL)
    )
    return {int(pk) for pk in open_syncs.values_list("subject_id", flat=True)}


def _set_due(rows: list[Pipeline], before: Before) -> None:
    policies = Policies({r.source_table.database.datasource_id for r in rows})
    now = timezone.now()
    by_schedule: dict[Schedule, dict[int, Pipeline]] = defaultdict(dict)
    for row in rows:
        schedule = policies.of_pipeline(row).schedule
        if schedule != before(row).schedule:
            by_schedule[schedule][row.pk] = row
    for schedule, found in by_schedule.items():
        due = next(iter(next_runs(schedule, now, 1)), None)
        # whether it is late by then is asked then
        Pipeline.objects.filter(pk__in=found).update(
            due_at=due, due_since=now, late_at=due
        )
        if due is None:
            _report_unscheduled(list(found.values()))


def _report_unscheduled(rows: list[Pipeline]) -> None:
    """From now on these tables are brought up to date when somebody asks."""
    outbox.append(
        *(
            NewEvent(
                "policy.changed",
                "pipeline",
                str(row.pk),
                {"table": row.lake_table_id, "has_schedule": False},
            )
            for row in rows
        )
    )


# ---------------------------------------------------------------------- next sync


def due_after(schedule: Schedule, began: datetime) -> datetime | None:
    """When the sync after one that was asked for at `began` and ends now is due.

    An interval counts from the asking, never into the past; of cron's moments those
    that passed meanwhile are skipped.
    """
    now = timezone.now()
    if seconds := every_seconds_of(schedule):
        return max(now, began + timedelta(seconds=seconds))
    return next(iter(next_runs(schedule, now, 1)), None)
