"""REST of onboardings: ask, look, approve, discard."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Count
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access import audit
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.reply import Body
from catalog.api.serializers import Empty
from catalog.api.views import PAGING, ApiView, body_of, members_of, paged
from catalog.api.views import page_size as page_size_of
from catalog.selectors.paging import keyset_page
from catalog.selectors.tables import datasource_for
from ingest.api import replies, requests
from ingest.api.planning_places import planning_place
from ingest.api.timetables import (
    Scheduled,
    Timetable,
    timetable_of,
    timetable_of_pipeline,
)
from ingest.models import Onboarding, Pipeline
from ingest.pipelines import onboarding, selectors
from ingest.pipelines.drafting import plan_onboarding
from ingest.pipelines.onboarding_rights import require_patterns, require_plan
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import parse_schedule
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.requests import parse_request

NEWEST = {"created_at": ("-created_at", "-id")}
INLINE_TABLES = 200


class OnboardingsView(ApiView):
    queries = PAGING | {"datasource"}

    @extend_schema(responses=page_of(replies.Onboarding))
    def get(self, request: Request) -> Response:
        """Requests that added tables, the newest first."""
        rows = selectors.onboardings_for(self.principal)
        if name := request.query_params.get("datasource"):
            rows = rows.filter(datasource__name=name)

        def listed(row: Onboarding) -> Body:
            row.request = selectors.request_shown(self.principal, row)
            return replies.Onboarding.body(Scheduled(row, _timetable(row)))

        return paged(request, rows, sorts=NEWEST, body=listed)

    @extend_schema(
        request=requests.OnboardingNew,
        responses={200: replies.Draft, 202: replies.OnboardingDetail},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Add tables: makes a plan to look at, or with `approve` one that starts at
        once. `dry_run` stores nothing and answers 200."""
        asked = parse_request(body_of(requests.OnboardingNew, request))
        require_patterns(self.principal, asked.datasource, asked.include)
        datasource_for(self.principal, asked.datasource)
        with planning_place(self.principal.name, asked):
            if asked.dry_run:
                draft = plan_onboarding(asked, principal=self.principal)
                return Response(replies.Draft.body(draft))
            row = onboarding.start_onboarding(asked, principal=self.principal)
        audit.record("onboarding.start", on=asked.datasource, is_approved=asked.approve)
        return _shown(self, row, status=202)


class OnboardingView(ApiView):
    """A request with its tables, how many are in which state, and its open jobs."""

    queries = frozenset({"page_size", "page_token"})

    @extend_schema(responses=replies.OnboardingDetail)
    def get(self, request: Request, onboarding_id: UUID) -> Response:
        return _shown(self, selectors.onboarding_for(self.principal, onboarding_id))


class ApproveView(ApiView):
    """Approve the plan. Tables that still need a decision are listed and stay."""

    @extend_schema(request=Empty, responses={202: replies.OnboardingDetail})
    @idempotent
    def post(self, request: Request, onboarding_id: UUID) -> Response:
        row = selectors.onboarding_for(self.principal, onboarding_id)
        require_plan(self.principal, row)
        members_of(request)
        onboarding.approve_onboarding(row, principal=self.principal)
        audit.record("onboarding.approve", on=row.datasource.name, id=str(row.pk))
        return _shown(self, row, status=202)


class DiscardView(ApiView):
    """Discard what is not approved of a plan: its tables can be added again. What was
    approved stays."""

    @extend_schema(request=Empty, responses=replies.OnboardingDetail)
    @idempotent
    def post(self, request: Request, onboarding_id: UUID) -> Response:
        row = selectors.onboarding_for(self.principal, onboarding_id)
        source = row.datasource.name
        require_plan(self.principal, row)
        members_of(request)
        count = onboarding.discard_onboarding(row, actor=self.principal.name)
        audit.record("onboarding.discard", on=source, id=str(row.pk), tables=count)
        row.refresh_from_db()
        return _shown(self, row)


def _timetable(row: Onboarding) -> Timetable:
    return timetable_of(parse_schedule(row.request.get("schedule")))


def _pipeline(row: Pipeline, policy: Effective) -> replies.ShownPipeline:
    return replies.ShownPipeline(row, policy, timetable_of_pipeline(row, policy))


def _shown(view: ApiView, row: Onboarding, *, status: int = 200) -> Response:
    """The request with a page of its tables, counts by state, and its open jobs."""
    row.request = selectors.request_shown(view.principal, row)
    pipelines = selectors.pipelines_for(view.principal, row)
    size = page_size_of(view.request) if status == 200 else INLINE_TABLES
    token = view.request.query_params.get("page_token")
    page = keyset_page(pipelines, order=("id",), size=size, token=token)
    counts = dict(pipelines.order_by().values_list("state").annotate(Count("pk")))
    policies = Policies([row.datasource_id])
    tables = [f.lake_table_id for f in page.items if f.lake_table_id]
    jobs = (
        selectors.of_tables(
            selectors.jobs_for(view.principal), [str(pk) for pk in tables]
        )
        .filter(finished_at=None)
        .order_by("created_at")[:size]
    )
    selectors.hide_places(view.principal, row, page.items)
    shown = replies.ShownOnboarding(
        row,
        _timetable(row),
        counts=counts,
        tables=[_pipeline(each, policies.of_pipeline(each)) for each in page.items],
        jobs=list(jobs),
        next_page_token=page.next_page_token,
    )
    body = replies.OnboardingDetail.body(shown)
    headers = {"Location": f"/api/v1/onboardings/{row.pk}"} if status == 202 else {}
    return Response(body, status=status, headers=headers)
