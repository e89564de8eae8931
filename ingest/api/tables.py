"""REST verbs of tables: sync, pause, resume, verify, remove; and what the lake holds
of them: commits and a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.enforcement import require
from catalog.access.policy import Privilege
from catalog.api.idempotency import idempotent
from catalog.api.serializers import Empty
from catalog.api.views import ApiView, members_of, page_size
from catalog.models import Table
from catalog.selectors.tables import securable_of, table_for
from core.errors import InvalidRequest
from core.jobs import TERMINAL
from core.models import Job
from ingest.api import replies
from ingest.api.bodies import commit_body, job_body, removal_body
from ingest.models import Pipeline
from ingest.models.states import RETIRED
from ingest.pipelines import removal, samples, sampling, table_commands
from ingest.pipelines.requests import flag, refuse

LARGEST_SAMPLE = 200
DEFAULT_SAMPLE = 20


def lake_table_of(view: ApiView, table_id: int, privilege: Privilege) -> Table:
    """The lake table meant by the id of it or of its source table, permitted."""
    table = table_for(view.principal, table_id)
    require(view.principal, privilege, securable_of(table))
    if table.kind == Table.LAKE:
        return table
    pipeline = (
        Pipeline.objects.exclude(state=RETIRED)
        .filter(source_table=table, lake_table__isnull=False)
        .first()
    )
    if pipeline is None or pipeline.lake_table_id is None:
        raise InvalidRequest(
            f"{table} is not carried into the lake",
            code="not_onboarded",
            hint="POST /api/v1/onboardings",
        )
    lake = table_for(view.principal, pipeline.lake_table_id)
    require(view.principal, privilege, securable_of(lake))
    return lake


class _Verb(ApiView):
    """A verb that answers 202 with the job it queued."""

    start: ClassVar[Callable[..., Job]]

    @extend_schema(request=Empty, responses={202: replies.SyncingJob})
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.OPERATE)
        members_of(request)
        job = type(self).start(table, actor=self.principal.name)
        return accepted(job)


def accepted(job: Job) -> Response:
    headers = {"Location": f"/api/v1/jobs/{job.pk}"}
    return Response(job_body(job), status=202, headers=headers)


class SyncView(_Verb):
    """Sync the table now, whatever its schedule says."""

    start = staticmethod(table_commands.start_sync)


class VerifyView(_Verb):
    """Compare the lake table with its source, by key and hash of each row."""

    start = staticmethod(table_commands.start_verify)


class _Switch(ApiView):
    """A verb that changes the table's state at once; running work follows."""

    move: ClassVar[Callable[..., Pipeline]]

    @extend_schema(request=Empty, responses={202: replies.TableSwitched})
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.OPERATE)
        members_of(request)
        pipeline = type(self).move(table, actor=self.principal.name)
        open_jobs = Job.objects.filter(subject_id=str(table.pk)).exclude(
            state__in=sorted(TERMINAL)
        )
        body = {
            "table": table.pk,
            "status": pipeline.state,
            "status_reason": pipeline.status_reason,
            "jobs": [job_body(job) for job in open_jobs.order_by("created_at")],
            "links": {"table": f"/api/v1/tables/{table.pk}"},
        }
        return Response(body, status=202)


class PauseView(_Switch):
    """Stop syncing the table; running work is asked to stop. Its rows stay readable."""

    move = staticmethod(table_commands.pause)


class ResumeView(_Switch):
    """Sync a paused or failed table again, from where it stopped."""

    move = staticmethod(table_commands.resume)


class ShareDriverView(_Switch):
    """Ends that the table's jobs run in processes of their own."""

    move = staticmethod(table_commands.share_driver)


class RemoveView(ApiView):
    """Stop syncing the table for good, and keep or drop its lake data. A dry run
    answers 200 with what would happen."""

    @extend_schema(
        request=replies.RemovalNew,
        responses={200: replies.Removal, 202: replies.SyncingJob},
    )
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.MANAGE)
        body = members_of(request, ("data", "dry_run"))
        data = body.get("data", "keep")
        if data not in {"keep", "drop"}:
            refuse("/data", "data must be 'keep' or 'drop'")
        is_drop = data == "drop"
        if flag(body, "dry_run"):
            return Response(
                removal_body(removal.plan_removal(table, drop_data=is_drop))
            )
        actor = self.principal.name
        return accepted(removal.start_removal(table, drop_data=is_drop, actor=actor))


class CommitsView(ApiView):
    """Completed instants of the lake table's own timeline, newest first."""

    queries = frozenset({"page_size", "page_token"})

    @extend_schema(responses=replies.CommitPage)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        page = samples.commits_of(
            table,
            size=page_size(request),
            before=request.query_params.get("page_token") or None,
        )
        items = [commit_body(commit) for commit in page.commits]
        return Response({"items": items, "next_page_token": page.next_before})


class SampleView(ApiView):
    """Some rows of a lake table, source columns only; needs `select`."""

    queries = frozenset({"limit"})

    @extend_schema(responses=replies.Sample)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.SELECT)
        limit = _limit(request)
        sample = sampling.sample_for(self.principal.name, table, limit=limit)
        columns = [{"name": name, "type": kind} for name, kind in sample.columns]
        return Response({"columns": columns, "rows": sample.rows})


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(DEFAULT_SAMPLE))
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    if not is_number or not 1 <= int(text) <= LARGEST_SAMPLE:
        raise InvalidRequest(
            f"limit is '{text}'",
            code="invalid_limit",
            hint=f"a number from 1 to {LARGEST_SAMPLE}",
        )
    return int(text)
