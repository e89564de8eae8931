"""Onboardings of sources that are not discovered yet: kept as asked, planned after.

They are requests without tables whose `waits` says what for. Nothing here approves
or loads. Must not know where the request came from.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from catalog.access.policy import Principal
from catalog.compiled import AnyRow
from catalog.models import Datasource
from core.errors import SluiceError
from core.sentences import origins_in
from ingest.models import Onboarding, Pipeline
from ingest.pipelines.onboarding import start_onboarding
from ingest.pipelines.policies.policy import changed
from ingest.pipelines.requests import parse_request

log = logging.getLogger(__name__)

# who runs commands on the machine may do everything: nobody else makes these
OPERATOR = Principal("manage.py", is_admin=True)
NOT_DISCOVERED = "the source is not discovered yet"
Body = Mapping[str, Any]


def wait_for_discovery(source: Datasource, body: Body) -> Onboarding:
    """Keep `body` (see `begin`) until the source's tables are known."""
    parse_request(_request(body))
    return Onboarding.objects.create(
        datasource=source,
        request={
            "include": [],
            "tables": {},
            **body,
            "datasource": source.name,
            "waits": NOT_DISCOVERED,
        },
        requested_by=OPERATOR.name,
    )


def waiting_rows() -> QuerySet[Onboarding]:
    return Onboarding.objects.filter(request__has_key="waits").order_by("created_at")


_is_any_waiting = AnyRow(waiting_rows)


def forget_waiting(source: str, name: str) -> None:
    """Take one table or pattern back from what waits; a request without any is gone."""
    for row in waiting_rows().filter(datasource__name=source):
        if name in row.request["include"]:
            row.request["include"].remove(name)
        elif row.request["tables"].pop(name, None) is None:
            continue
        if row.request["tables"] or row.request["include"]:
            row.save(update_fields=["request"])
        else:
            row.delete()


def begin(body: Body) -> Onboarding:
    """An onboarding with proposed tables.

    body: as for `POST /onboardings`, with `policy` for settings that all its tables
    get as their own; tables named under `tables` need not be in `include`.
    """
    policy = changed({}, body.get("policy") or {})
    with transaction.atomic():
        row = start_onboarding(parse_request(_request(body)), principal=OPERATOR)
        if policy:
            row.tables.update(policy=policy)
    return row


def plan_waiting() -> int:
    """Plan what waited for a discovery that has happened; how many requests.

    What cannot be planned says why and is tried again after the next discovery.
    """
    if not _is_any_waiting():
        return 0
    planned = 0
    rows = waiting_rows().filter(datasource__discovered_at__isnull=False)
    for row in rows.select_related("datasource"):
        seen = str(row.datasource.discovered_at)
        if row.request.get("tried") == seen:
            continue
        planned += _plan_if_waiting(row.pk, seen)
    return planned


def _plan_if_waiting(pk: UUID, seen: str) -> bool:
    """The row is locked, and another beat that plans it now has it alone."""
    with transaction.atomic():
        rows = waiting_rows().select_for_update(skip_locked=True)
        row = rows.filter(pk=pk).first()
        if row is None or row.request.get("tried") == seen:
            return False
        try:
            _plan(row)
        except SluiceError as error:
            why = error.as_sentence
            row.request |= {"waits": why, "tried": seen, "sentences": origins_in([why])}
            row.save(update_fields=["request"])
            log.warning("onboarding %s waits: %s", row.pk, error)
            return False
    return True


def _plan(row: Onboarding) -> None:
    """The same request, now with its tables: its id stays."""
    with transaction.atomic():
        made = begin(row.request)
        Pipeline.objects.filter(onboarding=made).update(onboarding=row)
        row.request = made.request
        row.save(update_fields=["request"])
        made.delete()


def _request(body: Body) -> dict[str, Any]:
    tables = body.get("tables") or {}
    return {
        "datasource": body["datasource"],
        "capture": body.get("capture"),
        "include": [*(body.get("include") or []), *tables],
        "exclude": list(body.get("exclude") or []),
        "target_database": body.get("target_database"),
        "schedule": (body.get("policy") or {}).get("schedule"),
        "tables": tables,
        "shards": body.get("shards"),
    }
