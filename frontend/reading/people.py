"""Whom a form lets pick, and what ends with a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.utils.translation import gettext, ngettext

from catalog.access.grants import GROUP, USER
from catalog.access.groups import rules_naming
from catalog.models import ApiToken, Grant, Invitation, SavedQuery, Table
from core.errors import SluiceError
from gateway.client import open_sessions

MOST_PICKED, MOST_SHOWN = 50, 40


@dataclass(frozen=True, slots=True)
class Pickable:
    """value: "user:ann" or "group:bi"."""

    value: str
    name: str
    is_group: bool
    is_ticked: bool


def people_like(typed: str, ticked: Sequence[str] = ()) -> list[Pickable]:
    """The ticked ones, then groups and users whose name contains `typed`."""
    q, found = typed.strip()[:150], dict.fromkeys(ticked, True)
    groups = Group.objects.filter(name__icontains=q).order_by("name")
    users = User.objects.filter(username__icontains=q, is_active=True)
    for kind, names in (
        (GROUP, groups.values_list("name", flat=True)),
        (USER, users.order_by("username").values_list("username", flat=True)),
    ):
        for name in names[:MOST_SHOWN]:
            found.setdefault(f"{kind}:{name}", False)
    return [_pickable(value, is_ticked=is_ticked) for value, is_ticked in found.items()]


def _pickable(value: str, *, is_ticked: bool) -> Pickable:
    kind, _, name = value.partition(":")
    return Pickable(value, name, is_group=kind == GROUP, is_ticked=is_ticked)


def what_ends(user: User) -> Sequence[str]:
    """One line each, with numbers."""
    return [*_sessions(user), *_rows(user)]


def _sessions(user: User) -> list[str]:
    lines = [gettext("The sessions in browsers end.")]
    try:
        number = sum(one["user"] == user.username for one in open_sessions())
    except SluiceError:
        return [*lines, gettext("SQL sessions and their statements end.")]
    said = ngettext(
        "%(number)s SQL session and its statements end.",
        "%(number)s SQL sessions and their statements end.",
        number,
    )
    return [*lines, said % {"number": number}] if number else lines


def _rows(user: User) -> list[str]:
    given = Grant.objects.filter(principal_kind=USER, principal_name=user.username)
    tokens = ApiToken.objects.filter(user=user).count()
    grants, invitations = given.count(), Invitation.objects.filter(issued_by=user)
    owned = Table.objects.filter(owner=f"{USER}:{user.username}").count()
    queries = SavedQuery.objects.filter(owner=user)
    shared = queries.filter(is_shared=True).count()
    said = [
        (tokens, ngettext("%(n)s token ends.", "%(n)s tokens end.", tokens)),
        (grants, ngettext("%(n)s grant ends.", "%(n)s grants end.", grants)),
    ]
    line = ngettext(
        "%(n)s table has no owner then.",
        "%(n)s tables have no owner then.",
        owned,
    )
    said.append((owned, line))
    number = invitations.count()
    line = ngettext(
        "%(n)s invitation that they issued ends.",
        "%(n)s invitations that they issued end.",
        number,
    )
    said.append((number, line))
    number = queries.count()
    line = ngettext(
        "%(n)s saved query is deleted; shared with all: %(shared)s.",
        "%(n)s saved queries are deleted; shared with all: %(shared)s.",
        number,
    )
    said.append((number, line))
    number = len(rules_naming(f"{USER}:{user.username}"))
    line = ngettext(
        "%(n)s rule names them; it stays.",
        "%(n)s rules name them; they stay.",
        number,
    )
    said.append((number, line))
    return [line % {"n": n, "shared": shared} for n, line in said if n]
