"""REST of jobs, of every kind: list, one, cancel, retry, logs."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require
from catalog.access.policy import Privilege
from catalog.access.rules import reads_whole
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.reply import Body
from catalog.api.serializers import Empty
from catalog.api.views import PAGING, ApiView, members_of, page_size, paged, truth
from catalog.selectors.contents import job_without_contents, require_log, shows_log
from core.errors import InvalidRequest
from core.jobs import JOB
from core.models import Job, JobLog
from core.sentences import Sentence
from ingest.api import replies
from ingest.pipelines import selectors, table_commands
from ingest.pipelines.job_selectors import JobFilter

NEWEST = {"created_at": ("-created_at", "-id")}


class JobsView(ApiView):
    """Jobs on things that the caller may see, the newest first."""

    queries = PAGING | {"state", "kind", "table", "is_finished"}

    @extend_schema(responses=page_of(replies.SyncingJob))
    def get(self, request: Request) -> Response:
        rows = _filter_of(request).rows(self.principal)
        shown = job_without_contents(self.principal)

        def body(job: Job) -> Body:
            return replies.SyncingJob.body(shown(job))

        return paged(request, rows, sorts=NEWEST, body=body)


def _filter_of(request: Request) -> JobFilter:
    asked = request.query_params
    states, kinds = asked.get("state"), asked.get("kind")
    return JobFilter(
        states=tuple(_known_states(states)) if states else (),
        kinds=tuple(kinds.split(",")) if kinds else (),
        table=asked.get("table", ""),
        is_finished=truth(request, "is_finished"),
    )


def _known_states(text: str) -> list[str]:
    states = text.split(",")
    known = sorted(JOB.states)
    if unknown := sorted(set(states) - set(known)):
        raise InvalidRequest(
            f"'{unknown[0]}' is no state of a job",
            code="invalid_state",
            hint="one or more of: " + ",".join(known),
        )
    return states


class JobView(ApiView):
    """A job with its state, progress, error and history."""

    @extend_schema(responses=replies.JobDetail)
    def get(self, request: Request, job_id: UUID) -> Response:
        job = selectors.job_for(self.principal, job_id)
        if _has_rows(job) and not reads_whole(
            self.principal, selectors.securable_of_job(job)
        ):
            _hide_rows(job)
        body = replies.JobDetail.body(job_without_contents(self.principal)(job))
        return Response(
            body if shows_log(self.principal, job) else {**body, "events": []}
        )


def _has_rows(job: Job) -> bool:
    return "keys" in ((job.report or {}).get("facts") or {})


def _hide_rows(job: Job) -> None:
    """Keys of rows are for who may read them; the row in the database keeps them."""
    report = job.report or {}
    job.report = {**report, "facts": {**report["facts"], "keys": None}}


class JobCancelView(ApiView):
    """Ask a job to stop. The job ends CANCELLED once it left nothing half done."""

    @extend_schema(request=Empty, responses={202: replies.SyncingJob})
    @idempotent
    def post(self, request: Request, job_id: UUID) -> Response:
        _require_to_operate(self, selectors.job_for(self.principal, job_id))
        members_of(request)
        job = table_commands.cancel_job(job_id, actor=self.principal.name)
        return Response(replies.SyncingJob.body(job), status=202)


class JobRetryView(ApiView):
    """Another go for a job that failed or was cancelled."""

    @extend_schema(request=Empty, responses={202: replies.SyncingJob})
    @idempotent
    def post(self, request: Request, job_id: UUID) -> Response:
        _require_to_operate(self, selectors.job_for(self.principal, job_id))
        members_of(request)
        job = table_commands.retry_job(job_id, actor=self.principal.name)
        return Response(replies.SyncingJob.body(job), status=202)


def _require_to_operate(view: ApiView, job: Job) -> None:
    require(view.principal, Privilege.OPERATE, selectors.securable_of_job(job))


class JobLogsView(ApiView):
    """Lines in order of time. `direction=back` starts at the end; `cursor`, or
    `page_token` as in every list, goes on."""

    queries = frozenset({"cursor", "page_token", "direction", "page_size", "level"})

    @extend_schema(responses=replies.LogPage)
    def get(self, request: Request, job_id: UUID) -> Response:
        job = selectors.job_for(self.principal, job_id)
        require_log(self.principal, job)
        is_back = _is_back(request)
        rows = JobLog.objects.filter(job=job)
        if level := request.query_params.get("level"):
            rows = rows.filter(level=level)
        if cursor := _cursor(request):
            rows = rows.filter(pk__lt=cursor) if is_back else rows.filter(pk__gt=cursor)
        size = page_size(request)
        found = list(rows.order_by("-pk" if is_back else "pk")[: size + 1])
        page, is_more = found[:size], len(found) > size
        if is_back:
            page.reverse()
        found_so = {
            "items": page,
            "older": str(page[0].pk) if page and (is_more or not is_back) else None,
            "newer": str(page[-1].pk) if page else _given(request),
            "next_page_token": _next(page, is_back=is_back) if is_more else None,
            "is_finished": job.is_finished,
        }
        return Response(replies.LogPage.body(found_so))


def _next(page: list[JobLog], *, is_back: bool) -> str:
    return str(page[0].pk if is_back else page[-1].pk)


def _is_back(request: Request) -> bool:
    given = request.query_params.get("direction", "forward")
    if given not in {"forward", "back"}:
        raise InvalidRequest(
            "%(name)s is '%(value)s'",
            name="direction",
            value=given,
            hint=Sentence("forward or back"),
        )
    return given == "back"


def _given(request: Request) -> str | None:
    asked = request.query_params
    return asked.get("page_token") or asked.get("cursor")


def _cursor(request: Request) -> int | None:
    text = _given(request)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidRequest(
            "%(name)s is '%(value)s'",
            name="cursor",
            value=text,
            code="invalid_cursor",
        )
    return int(text)
