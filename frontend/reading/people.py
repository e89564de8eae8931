"""Whom a form lets pick, and what ends with a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.utils.translation import gettext, ngettext, ngettext_lazy

from catalog.access.grants import GROUP, USER
from catalog.access.groups import rules_naming
from catalog.models import ApiToken, Grant, Invitation, SavedQuery, Table
from core.errors import SluiceError
from gateway.client import open_sessions

MOST_PICKED, MOST_SHOWN = 50, 40

_TOKENS = ngettext_lazy("%(n)s token ends.", "%(n)s tokens end.", "n")
_GRANTS = ngettext_lazy("%(n)s grant ends.", "%(n)s grants end.", "n")
_OWNED = ngettext_lazy(
    "%(n)s table has no owner then.", "%(n)s tables have no owner then.", "n"
)
_INVITATIONS = ngettext_lazy(
    "%(n)s invitation that they issued ends.",
    "%(n)s invitations that they issued end.",
    "n",
)
_QUERIES = ngettext_lazy(
    "%(n)s saved query is deleted; shared with all: %(shared)s.",
    "%(n)s saved queries are deleted; shared with all: %(shared)s.",
    "n",
)
_RULES = ngettext_lazy(
    "%(n)s rule names them; it stays.", "%(n)s rules name them; they stay.", "n"
)


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
    principal = f"{USER}:{user.username}"
    given = Grant.objects.filter(principal_kind=USER, principal_name=user.username)
    queries = SavedQuery.objects.filter(owner=user)
    counted = (
        (_TOKENS, ApiToken.objects.filter(user=user).count()),
        (_GRANTS, given.count()),
        (_OWNED, Table.objects.filter(owner=principal).count()),
        (_INVITATIONS, Invitation.objects.filter(issued_by=user).count()),
        (_QUERIES, queries.count()),
        (_RULES, len(rules_naming(principal))),
    )
    shared = queries.filter(is_shared=True).count()
    return [str(line % {"n": n, "shared": shared}) for line, n in counted if n]
