"""REST of table actions: one view, as many routes as `ingest.actions.registry` lists.

`"dry_run": true` answers 200 with what an action would do; else it is 202, with the
job it queued or with the state it moved the table to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from django.urls import URLPattern, path
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers as s
from rest_framework.fields import empty
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.examples import examples_for
from catalog.api.idempotency import idempotent
from catalog.api.openapi import SluiceSchema
from catalog.api.replies import page_of
from catalog.api.reply import Reply
from catalog.api.serializers import Empty, Flag, Items, Text, Whole
from catalog.api.views import ApiView, body_of
from catalog.models import Table
from core.jobs import TERMINAL
from core.models import Job
from ingest.actions import registry
from ingest.api import health_replies, replies
from ingest.api.tables import accepted, lake_table_of, shows_values
from ingest.maintenance import table_action as declared
from ingest.maintenance.repair_actions import SAVEPOINT
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.repairs import savepoints_of
from ingest.maintenance.table_action import TableAction
from ingest.models import Pipeline
from ingest.pipelines.removal import RemovalPreview
from ingest.pipelines.selectors import of_table

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

REPLIES: dict[type, type[Reply]] = {
    Job: replies.SyncingJob,
    Pipeline: replies.TableSwitched,
    Preview: health_replies.RepairPreview,
    RemovalPreview: replies.Removal,
}
# operations whose reply is the example of any that starts the same
LIKE: dict[type, str] = {Job: "postSync", Pipeline: "postPause"}


# ---------------------------------------------------------------- what is sent
class Instant(Text):
    """17 digits of the timeline, or nothing."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or not declared.INSTANT.fullmatch(data):
            self.fail("invalid")
        return data


class Names(Items):
    """Each once is enough; how many there may be is bounded by the table's columns."""

    def __init__(self, **about: Any) -> None:
        super().__init__(child=Text(max_length=500), max_length=5000, **about)


class _CheckedLater:
    """The service judges the value, by an error code of its own."""

    def run_validation(self, data: Any = empty) -> Any:
        if data is empty:
            raise s.SkipField
        return data


KINDS: dict[declared.Kind, tuple[type[s.Field[Any, Any, Any, Any]], _StrPromise]] = {
    "flag": (Flag, _("'{name}' must be true or false")),
    "whole": (Whole, _("{name} must be a whole number")),
    "text": (Text, _("{name} must be a text")),
    "choice": (s.ChoiceField, _("{name} must be one of: {choices}")),
    "instant": (Instant, _("{name} has 17 digits, as the table's health names it")),
    "names": (Names, _("{name} must be a list of names")),
}


@cache
def serializer_for(request: declared.Request) -> type[s.Serializer[Any]]:
    """It checks what is sent, and OpenAPI shows it."""
    if not request.fields:
        return Empty
    members: dict[str, Any] = {each.name: _field(each) for each in request.fields}
    members["__doc__"] = request.help
    return type(request.name, (s.Serializer,), members)


def _field(each: declared.Field) -> s.Field[Any, Any, Any, Any]:
    kind, words = KINDS[each.kind]
    choices = [value for value, _ in each.choices]
    named = ", ".join(f"'{value}'" for value in choices)
    message = format_lazy(words, name=each.name, choices=named)
    about: dict[str, Any] = {
        "required": each.is_required,
        "help_text": each.help or None,
        "error_messages": dict.fromkeys(
            ("invalid", "invalid_choice", "not_a_list", "null", "required"), message
        ),
    }
    if each.kind == "choice":
        about["choices"] = choices
    if each.kind == "instant":
        about |= {"allow_null": each.is_nullable, "allow_blank": True}
    bounds = {"min_value": each.least, "max_value": each.most}
    about |= {name: bound for name, bound in bounds.items() if bound is not None}
    if each.is_checked_later:
        kind = type("CheckedLater", (_CheckedLater, kind), {})
    return kind(**about)


# ---------------------------------------------------------------- the view
class ActionSchema(SluiceSchema):
    """OpenAPI of an action: its sentence, its request, and what it answers."""

    @property
    def action(self) -> TableAction:
        assert isinstance(self.view, ActionView)
        return self.view.table_action

    def get_operation_id(self) -> str:
        action = self.action
        known = action.repair.action if action.repair else action.name
        parts = (action.collection or known).split("-")
        return f"{self.method.lower()}{''.join(map(str.capitalize, parts))}"

    def get_description(self) -> str:  # type: ignore[override]  # as spectacular does
        return self.action.does if self.method == "POST" else super().get_description()

    def get_examples(self) -> list[Any]:
        """Those beside the view, else one made of the declaration."""
        if found := super().get_examples():
            return found
        sent = {each.name: _example(each) for each in self.action.request.fields}
        replies = examples_for(type(self.view), LIKE[self.started])
        return [OpenApiExample("request", value=sent, request_only=True), *replies]

    @property
    def started(self) -> type:
        return Job if self.action.repair else _returned(self.action.run)

    def get_request_serializer(self) -> Any:
        return serializer_for(self.action.request)

    def get_response_serializers(self) -> Any:
        started = {202: REPLIES[self.started]}
        if not self.action.request.is_previewable:
            return started
        return {200: REPLIES[_returned(self.action.preview)], **started}


def _example(each: declared.Field) -> object:
    if each.kind == "choice":
        return each.choices[0][0]
    examples = {"flag": True, "whole": each.least or 1, "names": ["note"]}
    return examples.get(each.kind, "")


def _returned(call: Callable[..., Any] | None) -> type:
    return get_type_hints(call)["return"]  # type: ignore[no-any-return]


class ActionView(ApiView):
    """What users request for a lake table; `table_action` comes with the route."""

    table_action: TableAction = SAVEPOINT
    schema = ActionSchema()

    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        action = self.table_action
        table = lake_table_of(self, table_id, action.privilege)
        given = body_of(serializer_for(action.request), request)
        if action.request.takes_dry_run(given):
            found = registry.preview(action, table, given)
            body = REPLIES[type(found)].body(found)
            compaction = body.get("compaction")
            if compaction and not shows_values(self, table):
                for group in compaction["groups"]:
                    group["partition"] = ""
            return Response(body)
        done = registry.start(action, table, actor=self.principal.name, given=given)
        return accepted(done) if isinstance(done, Job) else _moved(table, done)


class SavepointsView(ActionView):
    """Moments a table can go back to, newest first; POST makes one of now."""

    @extend_schema(responses=page_of(health_replies.Savepoint))
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        kept = list(map(health_replies.Savepoint.body, savepoints_of(table)))
        return Response({"items": kept, "next_page_token": None})


def routes(table: str) -> list[URLPattern]:
    """One of each action, behind the table's address."""
    views = {SAVEPOINT.name: SavepointsView}
    return [
        path(
            f"{table}{action.route}",
            views.get(action.name, ActionView).as_view(table_action=action),
        )
        for action in registry.verbs()
    ]


# ---------------------------------------------------------------- what comes back
def _moved(table: Table, pipeline: Pipeline) -> Response:
    jobs = of_table(Job.objects.all(), str(table.pk))
    open_jobs = jobs.exclude(state__in=sorted(TERMINAL))
    body = {
        "table": table.pk,
        "status": pipeline.state,
        "status_reason": pipeline.status_reason,
        "jobs": open_jobs.order_by("created_at"),
        "links": {"table": f"/api/v1/tables/{table.pk}"},
    }
    return Response(replies.TableSwitched.body(body), status=202)
