"""What happened to tables, the newest first: jobs, what people decided, how columns
changed. One bounded statement for a page of all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import CharField, F, Q, QuerySet, Value
from django.db.models.functions import Cast, JSONObject, Left

from catalog.access.enforcement import decision_for
from catalog.access.policy import Principal, Privilege
from catalog.access.scope import in_scope, scope_of
from catalog.models import AuditEntry, SchemaVersion, Table
from catalog.models.access import DECISIONS
from catalog.selectors.tables import securable_of
from core.models import QUIET, Job
from core.sentences import restored
from ingest.models import PipelineEvent
from ingest.models.states import DECIDED
from ingest.pipelines.job_selectors import JobFilter

JOB, MOVE, COLUMNS, DECISION = "job", "move", "columns", "decision"
MOST_HIDDEN = 10_000
LONGEST = 3000
_JOB_FIELDS = (
    "id", "kind", "subject", "subject_id", "state", "phase", "done", "total", "unit",
    "requested_by", "created_at", "started_at", "finished_at",
)  # fmt: skip
_JOB_FACTS = ("rows", "bytes", "position", "instant")


@dataclass(frozen=True, slots=True)
class Entry:
    """of: one of the four above. facts: by that, as `_jobs` … say."""

    at: datetime
    of: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Activity:
    """As far as the principal may see it. table: of that one alone. is_quiet: with
    automatic jobs that changed no rows. events: what is no job; they come where no
    filter of jobs is set."""

    principal: Principal
    jobs: JobFilter = field(default_factory=JobFilter)
    table: Table | None = None
    is_quiet: bool = False
    has_jobs: bool = True
    has_events: bool = True

    def __getitem__(self, part: slice) -> list[Entry]:
        # of each kind no more than what the page can show of it
        found = [rows[: part.stop] for rows in self._parts()]
        first, *others = found
        rows = first.union(*others, all=True).order_by("-moment") if others else first
        return [Entry(at, of, _restored(facts)) for at, of, facts in rows[part]]

    def hidden(self, since: datetime | None) -> int:
        """Automatic jobs that are left out, from that moment on; at most MOST_HIDDEN
        and one more."""
        if self.is_quiet or not self.has_jobs:
            return 0
        rows = self._filtered().filter(QUIET)
        rows = rows.filter(created_at__gte=since) if since else rows
        return rows.order_by()[: MOST_HIDDEN + 1].count()

    def _filtered(self) -> QuerySet[Job]:
        return self.jobs.rows(self.principal)

    def _parts(self) -> Iterator[QuerySet[Any, Any]]:
        if self.has_jobs:
            yield self._jobs()
        if self.has_events:
            yield from (self._moves(), self._columns())
            if may_see_decisions(self.principal, self.table):
                yield self._decisions()

    def _jobs(self) -> QuerySet[Any, Any]:
        rows = self._filtered()
        rows = rows if self.is_quiet else rows.exclude(QUIET)
        read = {name: F(name) for name in _JOB_FIELDS}
        facts = {name: F(f"report__facts__{name}") for name in _JOB_FACTS}
        return _as_entries(
            rows.order_by("-created_at", "id"),
            JOB,
            "created_at",
            **read,
            error_message=Left("error_message", LONGEST),
            reason=Left("reason", LONGEST),
            facts=JSONObject(**facts),
        )

    def _moves(self) -> QuerySet[Any, Any]:
        """Moves of the state machine that people asked for, or should know."""
        rows = PipelineEvent.objects.filter(event__in=DECIDED)
        table = "pipeline__lake_table"
        read = {name: F(name) for name in ("event", "actor")} | _named(table)
        reason = Left("reason", LONGEST)
        rows = self._of_tables(rows, table).order_by("-id")
        return _as_entries(rows, MOVE, "at", reason=reason, **read)

    def _columns(self) -> QuerySet[Any, Any]:
        rows = SchemaVersion.objects.filter(version__gt=1, table__kind=Table.LAKE)
        rows = self._of_tables(rows, "table").order_by("-since")
        return _as_entries(
            rows, COLUMNS, "since", version=F("version"), **_named("table")
        )

    def _decisions(self) -> QuerySet[Any, Any]:
        """Grants, rules and settings."""
        rows = AuditEntry.objects.filter(action__in=DECISIONS, is_allowed=True)
        if self.table is not None:
            own = str(self.table)
            columns = Q(object__startswith=f"{own}.", action__startswith="rule.")
            rows = rows.filter(Q(object=own) | columns)
        elif self.jobs.q:
            rows = rows.filter(object__icontains=self.jobs.q)
        read = {name: F(name) for name in ("action", "actor", "object", "facts")}
        return _as_entries(rows.order_by("-at"), DECISION, "at", **read)

    def _of_tables(self, rows: QuerySet[Any], path: str) -> QuerySet[Any]:
        if self.table is not None:
            return rows.filter(**{path: self.table})
        if self.jobs.q:
            rows = rows.filter(**{f"{path}__name__icontains": self.jobs.q})
        if self.principal.is_admin and self.principal.is_active:
            return rows
        seen = Table.objects.filter(in_scope(scope_of(self.principal)))
        return rows.filter(**{f"{path}__in": seen})


def may_see_decisions(principal: Principal, table: Table | None) -> bool:
    """Of all tables administrators; of one who manages it."""
    if table is None:
        return principal.is_admin and principal.is_active
    return decision_for(principal, Privilege.MANAGE, securable_of(table)).allowed


def _named(path: str) -> dict[str, F]:
    return {
        "table": F(f"{path}_id"),
        "name": F(f"{path}__name"),
        "database": F(f"{path}__database__name"),
    }


def _restored(facts: dict[str, Any]) -> dict[str, Any]:
    named = ("reason", "error_message")
    return facts | {name: restored(facts[name]) for name in named if facts.get(name)}


def _as_entries(
    rows: QuerySet[Any], of: str, at: str, **facts: Any
) -> QuerySet[Any, Any]:
    found: QuerySet[Any, Any] = rows.annotate(
        moment=F(at),
        entry_of=Cast(Value(of), CharField()),
        entry=JSONObject(**facts),
    ).values_list("moment", "entry_of", "entry")
    return found
