"""The way of a newcomer, until it is walked.

Each step is derived from what exists; no step is ticked off by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.translation import gettext

from catalog.access.policy import Principal
from catalog.models import ApiToken, AuditEntry, Datasource, Table
from catalog.names import LAKE
from ingest.models import Pipeline

LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class FirstStep:
    name: str
    what: str
    url: str
    is_done: bool


def first_steps(principal: Principal) -> list[FirstStep]:
    """For administrators, who can walk all of it; [] once it is walked."""
    if not principal.is_admin:
        return []
    source = Datasource.objects.exclude(kind=LAKE).order_by("id").first()
    steps = [
        _source(source),
        _tables(source),
        _query(principal),
        _client(),
        _people(),
    ]
    return [] if all(step.is_done for step in steps) else steps


def _source(source: Datasource | None) -> FirstStep:
    return FirstStep(
        gettext("Add a source"),
        gettext(
            "A host, a database and a user that may read; tested before it is saved."
        ),
        reverse("frontend:source-new"),
        is_done=source is not None,
    )


def _tables(source: Datasource | None) -> FirstStep:
    url = reverse("frontend:sources")
    if source is not None:
        is_known = source.discovered_at is not None
        view = "frontend:onboard" if is_known else "frontend:source"
        url = reverse(view, args=[source.name])
    return FirstStep(
        gettext("Add its tables"),
        gettext("Discover its tables, select some, review the plan and approve it."),
        url,
        is_done=Pipeline.objects.filter(lake_table__isnull=False).exists(),
    )


def _query(principal: Principal) -> FirstStep:
    table = Table.objects.filter(kind=Table.LAKE, is_queryable=True).first()
    more = f"?table={table.pk}" if table else ""
    # of the newest lines only: the trail may be long
    newest = AuditEntry.objects.filter(actor=principal.name).order_by("-at", "-id")
    asked = newest.values_list("action", flat=True)[:LOOKED_AT]
    return FirstStep(
        gettext("Query them"),
        gettext("The SQL page queries the lake with your privileges."),
        reverse("frontend:sql") + more,
        is_done="statement.run" in asked,
    )


def _client() -> FirstStep:
    return FirstStep(
        gettext("Connect a client"),
        gettext(
            "Create a token and use it as the password in beeline, DBeaver or Python."
        ),
        reverse("frontend:connect"),
        is_done=ApiToken.objects.filter(last_used_at__isnull=False).exists(),
    )


def _people() -> FirstStep:
    return FirstStep(
        gettext("Invite people"),
        gettext("Add users and grant them privileges."),
        reverse("frontend:users"),
        is_done=User.objects.filter(is_active=True).count() > 1,
    )
