"""The pages that have an address of their own without an id: what the navigation at the
side shows, and what the search at the top finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Words = str | Promise


@dataclass(frozen=True, slots=True)
class Place:
    """name: of its address. badge: name of the address that says what stands beside the
    word. is_found_only: not at the side, as another page leads there."""

    word: Words
    name: str
    icon: str
    badge: str = ""
    is_found_only: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """title: "" of the first."""

    title: Words
    places: Sequence[Place]
    is_for_administrators: bool = False


SECTIONS = (
    Section(
        "",
        (
            Place(_("Home"), "home", "home"),
            Place(_("Sources"), "sources", "source"),
            Place(_("Add a source"), "source-new", "plus", is_found_only=True),
            Place(_("Tables"), "tables", "table"),
            Place(_("Health"), "health", "chart"),
            Place(_("Alerts"), "alerts", "warn", badge="alerts-badge"),
            Place(_("Activity"), "jobs", "job"),
            Place(_("SQL"), "sql", "sql"),
            Place(_("Connect"), "connect", "plug", is_found_only=True),
        ),
    ),
    Section(
        _("You"),
        (
            Place(_("Tokens"), "tokens", "token"),
            Place(_("Preferences"), "preferences", "globe"),
        ),
    ),
    Section(
        _("Administration"),
        (
            Place(_("Alert targets"), "alert-targets", "plug", is_found_only=True),
            Place(_("Users"), "users", "user"),
            Place(_("Invitations"), "invitations", "user", is_found_only=True),
            Place(_("Groups"), "groups", "group"),
            Place(_("Grants"), "grants", "key"),
            Place(_("Rules"), "rules", "lock"),
            Place(_("Audit"), "audit", "audit"),
            Place(_("Sessions"), "sessions", "sql"),
            Place(_("System"), "system", "system"),
        ),
        is_for_administrators=True,
    ),
)


def sections_for(*, is_admin: bool) -> list[Section]:
    return [one for one in SECTIONS if is_admin or not one.is_for_administrators]
