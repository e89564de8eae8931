"""REST verbs that repair a lake table. `dry_run` previews; else a job is queued."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.idempotency import idempotent
from catalog.api.replies import page_of
from catalog.api.serializers import Empty
from catalog.api.views import ApiView, members_of
from ingest.api import health_replies, replies
from ingest.api.health import pending_body
from ingest.api.tables import accepted, lake_table_of
from ingest.contract.job import RepairAction, RepairWork
from ingest.maintenance.impact_preview import preview_resync
from ingest.maintenance.repairs import Preview, preview, savepoints_of, start_repair
from ingest.pipelines import table_commands
from ingest.pipelines.requests import flag, refuse

_INSTANT = re.compile(r"(\d{17})?", re.ASCII)
PREVIEWED = {200: health_replies.RepairPreview, 202: replies.SyncingJob}


class _Repair(ApiView):
    action: ClassVar[RepairAction]
    members: ClassVar[tuple[str, ...]] = ("instant", "dry_run")

    def ask(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.OPERATE)
        work, is_dry = self._work(request)
        if is_dry and work.action != "deduplicate":
            return Response(preview_body(preview(table, work)))
        return accepted(start_repair(table, work, actor=self.principal.name))

    def _work(self, request: Request) -> tuple[RepairWork, bool]:
        body = members_of(request, self.members)
        asked = "" if body.get("instant") is None else body["instant"]
        if not isinstance(asked, str) or not _INSTANT.fullmatch(asked):
            refuse("/instant", "instant has 17 digits, as the table's health names it")
        is_dry = flag(body, "dry_run")
        only_counts = is_dry and self.action == "deduplicate"
        buckets = body.get("buckets") if "buckets" in self.members else 0
        if not isinstance(buckets, int) or isinstance(buckets, bool):
            refuse("/buckets", "buckets must be a whole number")
        work = RepairWork(
            self.action,
            asked,
            replan=flag(body, "replan"),
            dry_run=only_counts,
            buckets=buckets,
        )
        return work, is_dry


class RollbackView(_Repair):
    """Undo unfinished attempts: of one instant, or of all. Plans stay planned."""

    action = "rollback"

    @extend_schema(request=health_replies.RepairNew, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class UnscheduleView(_Repair):
    """Take planned compactions off the timeline; with `replan` a new one follows."""

    action = "unschedule"
    members = ("instant", "dry_run", "replan")

    @extend_schema(request=health_replies.UnscheduleNew, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class RestoreView(_Repair):
    """Go back to a savepoint, rows and capture position together."""

    action = "restore"

    @extend_schema(request=health_replies.RepairNew, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class CleanView(_Repair):
    """Old file versions and instants go now, not with the next compaction."""

    action = "clean"
    members = ("dry_run",)

    @extend_schema(request=health_replies.Previewable, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class ResizeView(_Repair):
    """Another number of buckets: the same rows, rewritten by one commit."""

    action = "resize"
    members = ("buckets", "dry_run")

    @extend_schema(request=health_replies.ResizeNew, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class ResyncView(ApiView):
    """A fresh copy from the source replaces the table by one commit. A source that
    reads as empty is refused unless the request says `accept_empty`."""

    @extend_schema(request=health_replies.ResyncNew, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.OPERATE)
        body = members_of(request, ("dry_run", "accept_empty"))
        accept_empty = flag(body, "accept_empty")
        if flag(body, "dry_run"):
            return Response(preview_body(preview_resync(table)))
        job = table_commands.start_resync(
            table, actor=self.principal.name, accept_empty=accept_empty
        )
        return accepted(job)


class DropMetadataTableView(_Repair):
    """Remove an index of Hudi's that another writer made and ours do not keep up."""

    action = "drop-metadata-table"
    members = ("dry_run",)

    @extend_schema(request=health_replies.Previewable, responses=PREVIEWED)
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class SavepointsView(_Repair):
    """Moments a table can go back to, newest first; POST makes one of now."""

    action = "savepoint"
    members = ()

    @extend_schema(responses=page_of(health_replies.Savepoint))
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        kept = [dataclasses.asdict(one) for one in savepoints_of(table)]
        return Response({"items": kept, "next_page_token": None})

    @extend_schema(request=Empty, responses={202: replies.SyncingJob})
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


class DeduplicateView(_Repair):
    """One row per key. A dry run is a job too: counting reads the whole table."""

    action = "deduplicate"
    members = ("dry_run",)

    @extend_schema(
        request=health_replies.DeduplicateNew, responses={202: replies.SyncingJob}
    )
    @idempotent
    def post(self, request: Request, table_id: int) -> Response:
        return self.ask(request, table_id)


def preview_body(found: Preview) -> dict[str, object]:
    return {
        "table": found.table,
        "action": found.action,
        "instants": [pending_body(p) for p in found.instants],
        "will": list(found.will),
        "misses": list(found.misses),
        "then": found.then or None,
        "resize": dataclasses.asdict(found.resize) if found.resize else None,
        "compaction": dataclasses.asdict(found.compaction)
        if found.compaction
        else None,
        "dry_run": True,
    }
