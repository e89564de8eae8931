"""REST of what the lake holds of tables: commits and a sample."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.policy import Privilege
from catalog.access.rules import reads_whole
from catalog.api.stream_limit import Places
from catalog.api.user_concurrency import RETRY_SECONDS, TooManyRequests
from catalog.api.views import AdminView, ApiView, page_size
from catalog.models import Table
from catalog.selectors.lookups import table_for
from catalog.selectors.tables import securable_of
from core.errors import AccessDenied, InvalidRequest
from core.models import Job
from core.sentences import Sentence
from ingest.api import replies
from ingest.models import Pipeline
from ingest.models.states import RETIRED
from ingest.pipelines import samples, sampling
from ingest.pipelines.change_stream import changes_of
from ingest.pipelines.shards import of_tables

LARGEST_SAMPLE = 200
DEFAULT_SAMPLE = 20
MOST_CHANGES = 1_000
DEFAULT_CHANGES = 100
CHANGE_READERS = Places(most=4, most_each=2)


def lake_table_of(view: ApiView, table_id: int, privilege: Privilege) -> Table:
    """The lake table meant by the id of it or of its source table, permitted."""
    table = table_for(view.principal, table_id)
    require(view.principal, privilege, securable_of(table))
    if table.kind == Table.LAKE:
        return table
    pipeline = (
        Pipeline.objects.exclude(state=RETIRED)
        .filter(of_tables(Table.objects.filter(pk=table.pk)), lake_table__isnull=False)
        .first()
    )
    if pipeline is None or pipeline.lake_table_id is None:
        raise InvalidRequest(
            f"{table} is not synced into the lake",
            code="not_onboarded",
            hint="POST /api/v1/onboardings",
        )
    lake = table_for(view.principal, pipeline.lake_table_id)
    require(view.principal, privilege, securable_of(lake))
    return lake


def shows_values(view: ApiView, table: Table) -> bool:
    """Whether the caller may see names of partitions: they are values of rows."""
    return reads_whole(view.principal, securable_of(table))


def accepted(job: Job) -> Response:
    headers = {"Location": f"/api/v1/jobs/{job.pk}"}
    return Response(replies.SyncingJob.body(job), status=202, headers=headers)


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
        found = {"items": page.commits, "next_page_token": page.next_before}
        return Response(replies.CommitPage.body(found))


class SampleView(ApiView):
    """Some rows of a lake table, source columns only; needs `select`."""

    queries = frozenset({"limit"})

    @extend_schema(responses=replies.Sample)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.SELECT)
        limit = sample_limit(request)
        sample = sampling.sample_for(self.principal.name, table, limit=limit)
        return Response(replies.Sample.body(sample))


class ChangesView(ApiView):
    """Changes of a table that follows a log, as the lake has applied them; needs
    `select`, and that no rule and no grant on columns limits the caller. Without
    `after`: none, and the token of now."""

    queries = frozenset({"after", "limit"})

    @extend_schema(responses=replies.Changes)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.SELECT)
        if not shows_values(self, table):
            raise AccessDenied(
                f"rules limit the rows or columns of {table} for you, and changes show"
                " all of them",
                code="changes_limited",
                hint="read the table by SQL, which keeps the rules",
            )
        limit = _limit(request, default=DEFAULT_CHANGES, most=MOST_CHANGES)
        place = CHANGE_READERS.take(self.principal.name)
        if place is None:
            raise TooManyRequests(
                "changes are being read for you or for others",
                hint="send the request again in some seconds",
                facts={"retry_after_seconds": RETRY_SECONDS},
            )
        with place:
            after = request.query_params.get("after") or None
            found = changes_of(table, after=after, limit=limit)
        if found.items:
            audit.record("table.changes", on=str(table), rows=len(found.items))
        return Response(replies.Changes.body(found))


def sample_limit(request: Request) -> int:
    return _limit(request, default=DEFAULT_SAMPLE, most=LARGEST_SAMPLE)


def _limit(request: Request, *, default: int, most: int) -> int:
    text = request.query_params.get("limit", str(default))
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    if not is_number or not 1 <= int(text) <= most:
        raise InvalidRequest(
            f"limit is '{text}'",
            code="invalid_limit",
            hint=Sentence("a number from 1 to %(most)s", most=most),
        )
    return int(text)


class AccessPreviewView(AdminView):
    """Some rows of a table of the lake as a user sees them: their rows, their columns,
    their masks. For administrators; it is in the audit."""

    queries = frozenset({"principal", "on", "limit"})

    @extend_schema(responses=replies.Sample)
    def get(self, request: Request) -> Response:
        given = request.query_params
        if not given.get("on"):
            raise InvalidRequest("`on` is missing", hint="on=lake.shop.orders")
        sample = sampling.preview_for(
            given.get("principal") or f"user:{self.principal.name}",
            given["on"],
            by=self.principal.name,
            limit=sample_limit(request),
        )
        return Response(replies.Sample.body(sample))
