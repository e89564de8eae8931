"""REST of alerts: the list, their end by hand; targets and deliveries for
administrators."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.etag import content_tag, require_match, tagged
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.serializers import Empty
from catalog.api.views import (
    PAGING,
    AdminView,
    ApiView,
    body_of,
    created,
    members_of,
    paged,
)
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.alerts import mutes, selectors, targets
from ingest.alerts.messages import alert_body
from ingest.alerts.rules import ALERTS, SEVERITIES, kinds_of
from ingest.api import alert_replies as replies
from ingest.models.alerts import AlertDelivery, AlertMute, AlertTarget

NEWEST_FIRST = {"id": ("-id",)}
OLDEST_FIRST = {"id": ("id",)}
STATES = ("open", "closed")


class AlertsView(ApiView):
    """Alerts on tables that the caller may see, the newest first."""

    queries = PAGING | {"state", "kind", "severity", "table"}

    @extend_schema(responses=page_of(replies.Alert))
    def get(self, request: Request) -> Response:
        rows = selectors.alerts_for(self.principal)
        if state := _one_of(request, "state", STATES):
            rows = rows.filter(closed_at__isnull=state == "open")
        if kind := _one_of(request, "kind", ALERTS):
            rows = rows.filter(kind=kind)
        if severity := _one_of(request, "severity", SEVERITIES):
            rows = rows.filter(kind__in=kinds_of(severity))
        if table := request.query_params.get("table"):
            rows = rows.filter(table=_number(table))
        return paged(request, rows, sorts=NEWEST_FIRST, body=alert_body)


class AlertDismissView(ApiView):
    """End an alert by hand. What is found again opens a new one."""

    @extend_schema(request=Empty, responses=replies.Alert)
    @idempotent
    def post(self, request: Request, id: int) -> Response:
        members_of(request)
        return Response(alert_body(selectors.dismiss(self.principal, id)))


class AlertAcknowledgeView(ApiView):
    """Note that somebody has seen an alert. It stays open and is not counted as new."""

    @extend_schema(request=Empty, responses=replies.Alert)
    @idempotent
    def post(self, request: Request, id: int) -> Response:
        members_of(request)
        return Response(alert_body(selectors.acknowledge(self.principal, id)))


class AlertMutesView(ApiView):
    queries = PAGING

    @extend_schema(responses=page_of(replies.AlertMute))
    def get(self, request: Request) -> Response:
        """What is muted now, of what the caller may operate."""
        mine = [row.pk for row in mutes.mutes_for(self.principal)]
        rows = AlertMute.objects.filter(pk__in=mine)
        return paged(request, rows, sorts=OLDEST_FIRST, body=replies.AlertMute.body)

    @extend_schema(request=replies.AlertMuteNew, responses={201: replies.AlertMute})
    @idempotent
    def post(self, request: Request) -> Response:
        """Notify nobody of alerts on a thing for a time. Needs operate on it."""
        given = body_of(replies.AlertMuteNew, request)
        row = mutes.mute(self.principal, given.pop("on"), **given)
        return Response(replies.AlertMute.body(row), status=201)


class AlertMuteView(ApiView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: int) -> Response:
        """Notify of alerts on it again; what is open is announced."""
        mutes.unmute(self.principal, id)
        return Response(status=204)


class AlertTargetsView(AdminView):
    queries = PAGING

    @extend_schema(responses=page_of(replies.AlertTarget))
    def get(self, request: Request) -> Response:
        """List alert targets and their delivery state. For administrators."""
        rows = AlertTarget.objects.all()
        return paged(
            request, rows, sorts={"name": ("name", "id")}, body=replies.AlertTarget.body
        )

    @extend_schema(request=replies.AlertTargetNew, responses={201: replies.AlertTarget})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new target: mail, a webhook or a group chat. For administrators."""
        given = body_of(replies.AlertTargetNew, request)
        new = targets.NewTarget(**_none_as_empty(given))
        row = targets.create_target(new, by=self.principal.name)
        return created(f"alert-targets/{row.name}", replies.AlertTarget.body(row))


class AlertTargetView(AdminView):
    is_versioned = True

    @extend_schema(responses=replies.AlertTarget)
    def get(self, request: Request, target: str) -> Response:
        """One target of alerts. For administrators."""
        row = targets.target_named(target)
        return tagged(request, replies.AlertTarget.body(row), _tag(row))

    @extend_schema(
        request=replies.AlertTargetChange,
        responses=replies.AlertTarget,
    )
    def patch(self, request: Request, target: str) -> Response:
        """Change what a target is told, and in which language. Where its messages go
        stays. For administrators."""
        given = _none_as_empty(body_of(replies.AlertTargetChange, request))
        with transaction.atomic():
            require_match(request, _tag(targets.target_named(target, for_update=True)))
            row = targets.change_target(target, by=self.principal.name, **given)
        return tagged(request, replies.AlertTarget.body(row), _tag(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, target: str) -> Response:
        """Remove a target with its deliveries: what was not sent yet never will be."""
        targets.delete_target(target, by=self.principal.name)
        return Response(status=204)


class AlertTargetTestView(AdminView):
    @extend_schema(request=Empty, responses={202: replies.AlertDelivery})
    @idempotent
    def post(self, request: Request, target: str) -> Response:
        """Queue a message that says only that messages arrive."""
        members_of(request)
        sent = targets.send_test(target, by=self.principal.name)
        return Response(replies.AlertDelivery.body(sent), status=202)


class AlertTargetResumeView(AdminView):
    @extend_schema(request=Empty, responses=replies.AlertTarget)
    @idempotent
    def post(self, request: Request, target: str) -> Response:
        """Retry waiting deliveries now."""
        members_of(request)
        row = targets.resume_target(target, by=self.principal.name)
        return Response(replies.AlertTarget.body(row))


class AlertDeliveriesView(AdminView):
    """The delivery log of a target, the newest first."""

    queries = PAGING

    @extend_schema(responses=page_of(replies.AlertDelivery))
    def get(self, request: Request, target: str) -> Response:
        rows: QuerySet[AlertDelivery] = targets.target_named(target).deliveries.all()
        rows = rows.select_related("target")
        return paged(request, rows, sorts=NEWEST_FIRST, body=replies.AlertDelivery.body)


def _tag(row: AlertTarget) -> str:
    on = (row.database, row.table)
    return content_tag({"kinds": row.kinds, "on": on, "language": row.language})


def _none_as_empty(given: dict[str, Any]) -> dict[str, Any]:
    return {name: "" if value is None else value for name, value in given.items()}


def _one_of(request: Request, name: str, allowed: tuple[str, ...]) -> str:
    given = request.query_params.get(name, "")
    if given and given not in allowed:
        raise InvalidRequest(
            f"{name} is '{given}'", hint="one of: " + ", ".join(allowed)
        )
    return given


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidRequest(
            "%(name)s is '%(value)s'",
            name="table",
            value=text,
            hint=Sentence("the id of a table"),
        )
    return int(text)
