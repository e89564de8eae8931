"""Reads of ingestion rows: what runs on a schedule, and what a principal may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce

from catalog.access.grants import grants_of, rows_for
from catalog.access.policy import Decision, Principal, Privilege, Securable, decide
from catalog.access.scope import in_scope, scope_of
from catalog.access.visibility import visible_datasources
from catalog.discovery.services import KINDS as SOURCE_KINDS
from catalog.models import Datasource, Table
from catalog.names import LAKE
from catalog.selectors.tables import securable_of
from core.errors import NotFound
from core.models import Job
from core.sentences import Sentence, replaced_in, with_sentences
from ingest.models import Onboarding, Pipeline
from ingest.models.states import LOADED, PROPOSED
from ingest.pipelines.policies.schedule import MANUAL
from ingest.pipelines.policies.store import setting_as_text
from ingest.planning.facts import LOG


def pipelines_on_schedule() -> QuerySet[Pipeline]:
    """Tables whose changes come by themselves: only they can lag. One on request shows
    what was asked for, and one that was loaded once follows nothing."""
    rows = Pipeline.objects.filter(state__in=sorted(LOADED), lake_table__isnull=False)
    is_synced = Q(capture="timestamp") & ~Q(schedule=MANUAL)
    scheduled = rows.alias(schedule=schedule_as_text())
    return scheduled.filter(is_synced | Q(capture=LOG))


def schedule_as_text() -> Coalesce:
    """What counts for a pipeline, as text."""
    default = Value(MANUAL, TextField())
    return Coalesce(setting_as_text("schedule"), default)


def jobs_for(principal: Principal) -> QuerySet[Job]:
    """Jobs on what the principal may see, and those they requested."""
    if principal.is_admin and principal.is_active:
        return Job.objects.all()
    sources = Datasource.objects.filter(visible_datasources(principal))
    on_source = Q(kind__in=SOURCE_KINDS, subject_id__in=_as_text(sources))
    # from each job to its table: the other way, those in sight may be millions
    seen = Table.objects.filter(in_scope(scope_of(principal)), pk=OuterRef("table_id"))
    on_table = ~Q(kind__in=SOURCE_KINDS) & Exists(seen)
    number = When(
        subject_id__regex=r"^[0-9]{1,18}$", then=Cast("subject_id", BigIntegerField())
    )
    return Job.objects.alias(table_id=Case(number)).filter(
        on_source | on_table | Q(requested_by=principal.name)
    )


def of_table(rows: QuerySet[Job], table_id: str) -> QuerySet[Job]:
    """Those that work on this table."""
    return of_tables(rows, [table_id])


def of_tables(rows: QuerySet[Job], table_ids: Sequence[str]) -> QuerySet[Job]:
    """Those that work on these tables: jobs on sources name another thing by a
    number."""
    return rows.filter(~Q(kind__in=SOURCE_KINDS), subject_id__in=table_ids)


def _as_text(rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """Their primary keys as jobs name them."""
    return rows.order_by().values_list(Cast("pk", CharField()), flat=True)


def job_for(principal: Principal, job_id: UUID) -> Job:
    """NotFound when absent or hidden."""
    job = jobs_for(principal).filter(pk=job_id).first()
    if job is None:
        raise NotFound(
            "there is no job %(job_id)s", job_id=job_id, code="job_not_found"
        )
    return job


def securable_of_job(job: Job) -> Securable:
    """What its privileges are about: the source or table it works on, the whole lake
    when that is gone."""
    if job.kind in SOURCE_KINDS:
        source = Datasource.objects.filter(pk=job.subject_id).first()
        return Securable(source.name) if source else Securable(LAKE)
    tables = Table.objects.select_related("database__datasource")
    table = tables.filter(pk=int(job.subject_id or 0)).first()
    return securable_of(table) if table else Securable(LAKE)


def onboardings_for(principal: Principal) -> QuerySet[Onboarding]:
    """Requests of which the principal may see a table, and all of the sources that they
    may see whole."""
    rows = Onboarding.objects.select_related("datasource")
    if principal.is_admin and principal.is_active:
        return rows
    whole = rows_for(principal).filter(database="").values("datasource")
    seen = Pipeline.objects.filter(
        onboarding=OuterRef("pk"),
        source_table__in=Table.objects.filter(in_scope(scope_of(principal))),
    )
    is_active = Q() if principal.is_active else Q(pk__in=[])
    return rows.filter(is_active, Q(datasource__name__in=whole) | Exists(seen))


def request_shown(principal: Principal, onboarding: Onboarding) -> dict[str, Any]:
    """What was asked for, without names that the principal may not see. For showing:
    rights are judged on what is stored."""
    request = with_sentences(onboarding.request)
    source = onboarding.datasource.name
    held = [] if principal.is_admin else grants_of(principal)

    def decided(on: Securable) -> Decision:
        return decide(principal, Privilege.DISCOVER, on, held)

    def is_seen(name: str) -> bool:
        database, _, table = name.partition(".")
        if table == "*":
            return "*" not in database and decided(Securable(source, database)).allowed
        if not table or "*" in name:
            return False
        return decided(Securable(source, database, table)).allowed

    if principal.is_admin and principal.is_active:
        return request
    target = request.get("target_database")
    if target and not decided(Securable(LAKE, target)).allowed:
        target = None
    if decided(Securable(source)).reason == "grant":
        return _without_places(request, decided) | {"target_database": target}
    return {
        "datasource": source,
        "capture": request.get("capture"),
        "schedule": request.get("schedule"),
        "include": list(filter(is_seen, request.get("include", ()))),
        "exclude": list(filter(is_seen, request.get("exclude", ()))),
        "target_database": target,
        "skipped": list(filter(is_seen, request.get("skipped", ()))),
        "uncarried": [
            one for one in request.get("uncarried", ()) if is_seen(one["name"])
        ],
    }


def _without_places(
    request: Mapping[str, Any], decided: Callable[[Securable], Decision]
) -> dict[str, Any]:
    """Without the lake tables that were chosen and may not be seen."""
    tables = {}
    for name, chosen in request.get("tables", {}).items():
        database, _, table = (chosen.get("lake") or "").partition(".")
        is_hidden = database and not decided(Securable(LAKE, database, table)).allowed
        tables[name] = {**chosen, "lake": None} if is_hidden else chosen
    return {**request, "tables": tables} if tables else dict(request)


def hide_places(
    principal: Principal, onboarding: Onboarding, rows: Iterable[Pipeline]
) -> None:
    """Take the lake's names from rows of this onboarding that are shown, where the
    principal may not see them. The default place is for who manages the whole source,
    as long as it is nobody's choice."""
    if principal.is_admin and principal.is_active:
        return
    held = grants_of(principal)

    def may(privilege: Privilege, *on: str) -> bool:
        return decide(principal, privilege, Securable(*on), held).allowed

    manages = may(Privilege.MANAGE, onboarding.datasource.name)
    for row in rows:
        plan = row.plan
        database, name = plan.get("database", ""), plan.get("name", "")
        is_default = manages and not plan.get("is_target_chosen")
        if not database or is_default or may(Privilege.DISCOVER, LAKE, database, name):
            continue
        row.plan = _placeless(plan)
        row.lake_table = None
        for said in (f"{LAKE}.{database}.{name}", f"{database}.{name}"):
            row.status_reason = replaced_in(row.status_reason, said, _PLACE)


_PLACE = Sentence("its lake table")


def _placeless(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Steps that name the place are told without their names and summaries."""
    names = {"database", "name", "path", "jdbc", "lake", "sentences"}

    def told(step: Mapping[str, Any]) -> dict[str, Any]:
        hidden = {*names, "summary"} if names & step.keys() else set()
        return {k: v for k, v in step.items() if k not in hidden}

    steps = [told(step) for step in plan.get("steps", ())]
    return {k: v for k, v in plan.items() if k not in names} | {"steps": steps}


def plans_with_open_tables(principal: Principal) -> QuerySet[Onboarding]:
    """Requests of which a table is planned and not approved, others may be."""
    # no DISTINCT over a join: a request may name thousands of tables
    planned = Pipeline.objects.filter(onboarding=OuterRef("pk"), state=PROPOSED)
    return onboardings_for(principal).filter(Exists(planned)).defer("request")


def onboarding_for(principal: Principal, onboarding_id: UUID) -> Onboarding:
    row = onboardings_for(principal).filter(pk=onboarding_id).first()
    if row is None:
        raise NotFound(
            "there is no onboarding %(onboarding_id)s",
            onboarding_id=onboarding_id,
            code="onboarding_not_found",
        )
    return row


def pipelines_for(principal: Principal, onboarding: Onboarding) -> QuerySet[Pipeline]:
    """Its tables, as far as the principal may see them."""
    visible = Table.objects.filter(in_scope(scope_of(principal)))
    return (
        onboarding.tables.filter(source_table__in=visible)
        .select_related("source_table__database__datasource", "lake_table__database")
        .order_by("id")
    )
