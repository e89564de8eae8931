"""What the search at the top finds while one types: tables and columns, sources, saved
queries, jobs, people, pages, and actions on tables ("pause orders").

At most eight of a group, in a fixed number of statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.names import LAKE
from catalog.saved_queries import queries_for
from catalog.selectors.listing import Found
from catalog.selectors.tables import TableFilter, datasources_for, tables_for
from frontend.places import sections_for
from frontend.templatetags.figures import sql_name
from frontend.templatetags.states import as_work, word_of
from ingest.actions.registry import ACTIONS
from ingest.pipelines.selectors import jobs_for

MOST = 8
LONGEST = 300
# the beginning of a job's id: enough to leave few
OF_A_JOB = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}")


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    icon: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    hits: Sequence[Hit]


def find(principal: Principal, typed: str) -> list[Group]:
    """Groups that have hits; of nothing typed, the pages."""
    q = " ".join(typed.split())[:LONGEST]
    finders = (*(FINDERS if q else ()), (_("Pages"), _pages))
    found = [Group(str(title), list(each(principal, q))) for title, each in finders]
    return [group for group in found if group.hits]


def _pages(principal: Principal, q: str) -> Iterator[Hit]:
    for section in sections_for(is_admin=principal.is_admin):
        for place in section.places:
            title = str(place.word)
            if q.casefold() in title.casefold() or q.casefold() in place.name:
                yield Hit(title, reverse(f"frontend:{place.name}"), place.icon)


def _tables(principal: Principal, q: str) -> Iterator[Hit]:
    tables = Found(principal, TableFilter(q=q))[0:MOST]
    for table in sorted(tables, key=lambda table: table.kind != Table.LAKE):
        match: Any = getattr(table, "match", None)
        is_by_name = match is None or match.field == "name"
        note = (
            "" if is_by_name else f"{word_of(match.field, 'match')}: {match.text[:100]}"
        )
        url = reverse("frontend:table", args=[table.pk])
        yield Hit(_full(table), url, "table", note)


def _labelled(principal: Principal, q: str) -> Iterator[Hit]:
    """Of the tag `q`, or owned by the user or group of that name."""
    word = q.lower()  # as tags are kept
    for wanted in (
        TableFilter(kind=Table.LAKE, tag=word),
        TableFilter(kind=Table.LAKE, owner=f"user:{q}"),
        TableFilter(kind=Table.LAKE, owner=f"group:{q}"),
    ):
        rows = tables_for(principal, wanted).order_by("name", "id")[:MOST]
        for table in rows.prefetch_related(None):
            note = wanted.tag or wanted.owner
            url = reverse("frontend:table", args=[table.pk])
            yield Hit(_full(table), url, "table", note)


def _full(table: Table) -> str:
    """As SQL has it: the lake is left out."""
    database = table.database
    source = database.datasource.name
    parts = () if source == LAKE else (source,)
    return ".".join((*parts, database.name, table.name))


def _actions(principal: Principal, q: str) -> Iterator[Hit]:
    """An action's word, or its beginning, and a part of a table's name."""
    word, _, name = q.partition(" ")
    meant = [
        action
        for action in ACTIONS.values()
        if not action.is_decision
        and any(
            len(word) > 1 and text.casefold().startswith(word.casefold())
            for text in (action.name, gettext(action.title))
        )
    ]
    if not name or not meant:
        return
    for table in Found(principal, TableFilter(kind=Table.LAKE, q=name))[0:MOST]:
        url = reverse("frontend:table-action", args=[table.pk, meant[0].name])
        title = f"{gettext(meant[0].title)} {_full(table)}"
        yield Hit(title, url, meant[0].icon)


def _sources(principal: Principal, q: str) -> Iterator[Hit]:
    rows = datasources_for(principal).exclude(name=LAKE).filter(name__icontains=q)
    for row in rows.order_by("name")[:MOST]:
        yield Hit(row.name, reverse("frontend:source", args=[row.name]), "source")


def _saved(principal: Principal, q: str) -> Iterator[Hit]:
    rows = queries_for(principal).filter(name__icontains=q).defer("sql")
    for row in rows.order_by("name")[:MOST]:
        owner = row.owner.username
        note = "" if owner == principal.name else owner
        yield Hit(row.name, f"{reverse('frontend:sql')}?saved={row.pk}", "sql", note)


def _jobs(principal: Principal, q: str) -> Iterator[Hit]:
    if not OF_A_JOB.fullmatch(q.lower()):
        return
    digits = q.lower().replace("-", "")[:32]
    first, last = (UUID(digits.ljust(32, end)) for end in "0f")
    for job in jobs_for(principal).filter(pk__gte=first, pk__lte=last)[:MOST]:
        url = reverse("frontend:job", args=[job.pk])
        yield Hit(
            str(job.pk), url, "job", f"{as_work(job.kind)} {sql_name(job.subject)}"
        )


def _people(principal: Principal, q: str) -> Iterator[Hit]:
    if not principal.is_admin:
        return
    rows = User.objects.filter(username__icontains=q).order_by("username")
    for name in rows.values_list("username", flat=True)[:MOST]:
        yield Hit(name, reverse("frontend:users-user", args=[name]), "user")


FINDERS = (
    (_("Tables and columns"), _tables),
    (_("By tag or owner"), _labelled),
    (_("Actions"), _actions),
    (_("Sources"), _sources),
    (_("Saved queries"), _saved),
    (_("Jobs"), _jobs),
    (_("Users"), _people),
)
