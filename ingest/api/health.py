"""REST of a lake table's health: what was last seen of it, its file groups, its times.

Nothing here starts Spark; only /files, and /health when asked to, look at the lake
itself.
"""

from __future__ import annotations

import statistics

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.access.policy import Privilege
from catalog.api.replies import page_of
from catalog.api.reply import Body
from catalog.api.stream_limit import Place, Places
from catalog.api.user_concurrency import RETRY_SECONDS, TooManyRequests
from catalog.api.views import ApiView, page_size
from catalog.models import Table
from catalog.selectors.paging import key_of, key_token
from core.errors import AccessDenied, InvalidRequest
from core.sentences import without_origins
from ingest.api import health_replies as replies
from ingest.api.tables import lake_table_of, shows_values
from ingest.lake.commits import timeline_at
from ingest.lake.hudi.layout import GroupKey
from ingest.lake.layout import GroupPage, read_groups
from ingest.maintenance.facts import LakeFacts, facts_from
from ingest.maintenance.health_collector import look_now
from ingest.maintenance.write_amplification import written_from
from ingest.models import Pipeline, TableHealth
from ingest.pipelines.transitions import pipeline_of

LAYOUTS = Places(most=4, most_each=1)


class HealthView(ApiView):
    """Score of 0 to 100 with the reason of every lost point, and what is planned next.
    As it was seen last; `look=now` looks at the files first and wants `operate`."""

    queries = frozenset({"look"})

    @extend_schema(responses=replies.TableHealth)
    def get(self, request: Request, table_id: int) -> Response:
        look = request.query_params.get("look")
        if look not in (None, "now"):
            raise InvalidRequest("look can be 'now' only", code="invalid_request")
        # making the instance work needs the right to work with the table
        right = Privilege.OPERATE if look else Privilege.DISCOVER
        table = lake_table_of(self, table_id, right)
        if look and table.path:
            with _layout_place(self.principal.name):
                look_now(table)
        body = _health(table, health_of(table))
        conflicts = body["facts"] and body["facts"]["conflicts"]
        if conflicts and not shows_values(self, table):
            for one in conflicts:
                one["partition"] = ""
        return Response(body)


class MetricsView(ApiView):
    """How long commits took, and how the table's bytes went on."""

    @extend_schema(responses=replies.TableMetrics)
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        return Response(_metrics(table, health_of(table)))


class FilesView(ApiView):
    """Live file groups, by partition and bucket. A page may hold fewer than asked for,
    or none, before the last one."""

    queries = frozenset({"page_size", "page_token"})

    @extend_schema(responses=page_of(replies.FileGroup))
    def get(self, request: Request, table_id: int) -> Response:
        table = lake_table_of(self, table_id, Privilege.DISCOVER)
        size, scope = page_size(request), f"files:{table.pk}"
        after = _after(request, scope)
        page = GroupPage((), None)
        if table.path:
            with _layout_place(self.principal.name):
                timeline = timeline_at(table.path)
                page = read_groups(table.path, timeline, size=size, after=after)
        if _names_partitions(page) and not shows_values(self, table):
            raise AccessDenied(
                f"names of partitions are values of {table}, and you may not read all"
                " of its rows and columns",
                code="files_limited",
                hint="ask an administrator for `select` on the table",
            )
        token = key_token(list(page.after), scope) if page.after else None
        items = [replies.FileGroup.body(group) for group in page.groups]
        return Response({"items": items, "next_page_token": token})


def _layout_place(user: str) -> Place:
    """A place, to be held while a layout is read: of a large table that takes seconds
    of the processor or many calls of the store."""
    place = LAYOUTS.take(user)
    if place is None:
        raise TooManyRequests(
            "files of a table are being read for you or for others",
            hint="send the request again in some seconds",
            facts={"retry_after_seconds": RETRY_SECONDS},
        )
    return place


def _names_partitions(page: GroupPage) -> bool:
    """In the token of the next page, too."""
    return any(g.partition for g in page.groups) or bool(page.after and page.after[0])


def _after(request: Request, scope: str) -> GroupKey | None:
    try:
        key = key_of(request.query_params.get("page_token"), scope)
    except InvalidRequest as error:
        # as this list has called it from its first release on
        raise InvalidRequest(str(error), code="bad_token") from error
    return (key[0], key[1]) if key else None


def health_of(table: Table) -> TableHealth:
    """The stored look; an empty one before the first check."""
    found = TableHealth.objects.filter(table=table).first()
    return found or TableHealth(table=table)


def _health(table: Table, row: TableHealth) -> Body:
    facts = facts_from(row.facts) if row.facts else None
    seen = {
        "table": table.pk,
        "name": str(table),
        "score": row.score,
        "collected_at": row.collected_at,
        "problem": row.problem,
        "issues": [without_origins(issue) for issue in row.issues],
        "plan": [without_origins(step) for step in row.plan],
        "pending": facts.pending if facts else (),
        "merge": facts.merge if facts else None,
        "facts": _facts_body(facts) if facts else None,
        # of the rows that are there now: a load begins anew
        "verification": pipeline_of(table.pk) or Pipeline(),
    }
    return replies.TableHealth.body(seen)


def _facts_body(facts: LakeFacts) -> Body:
    told = facts.to_json()
    for name in ("pending", "commits", "merge"):
        told.pop(name)
    return told | {"log_ratio": round(facts.log_ratio, 3)}


def _metrics(table: Table, row: TableHealth) -> Body:
    facts = facts_from(row.facts) if row.facts else LakeFacts(at="")
    seconds = [c.seconds for c in facts.commits]
    seen = {
        "table": table.pk,
        "collected_at": row.collected_at,
        "base_bytes": facts.base_bytes,
        "log_bytes": facts.log_bytes,
        "old_bytes": facts.old_bytes,
        "log_ratio": round(facts.log_ratio, 3),
        "commit_seconds": round(statistics.median(seconds), 3) if seconds else None,
        "written": written_from(row.facts.get("written", {})),
        "commits": facts.commits,
        "trend": row.trend,
    }
    return replies.TableMetrics.body(seen)
