"""Reads and changes a user's language and time zone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.contrib.auth.models import User

from catalog.models import Preferences
from core.errors import InvalidRequest
from core.sentences import Sentence
from core.time_zones import zone_names


@dataclass(frozen=True, slots=True)
class Chosen:
    """ "" = as the browser says."""

    language: str = ""
    timezone: str = ""


@cache
def languages() -> frozenset[str]:
    return frozenset(code for code, _ in settings.LANGUAGES)


@cache
def zones() -> tuple[str, ...]:
    """Return the zones that have a place, and UTC; legacy aliases are left out."""
    legacy = ("Etc/", "SystemV/", "US/", "posix/", "right/")
    placed = (name for name in zone_names() if "/" in name)
    return ("UTC", *sorted(name for name in placed if not name.startswith(legacy)))


def check_language(code: str) -> str:
    """The code itself, "" too. InvalidRequest for a language that does not exist."""
    if code and code not in languages():
        raise InvalidRequest(
            "there is no language '%(name)s'",
            name=code,
            names=", ".join(sorted(languages())),
            hint="one of: %(names)s",
            pointer="/language",
        )
    return code


def preferences_of(user: User) -> Chosen:
    row = Preferences.objects.filter(user=user).first()
    return Chosen(row.language, row.timezone) if row else Chosen()


def save_preferences(user: User, chosen: Chosen) -> None:
    """Store the choice; refuse a language or a zone that does not exist."""
    check_language(chosen.language)
    if chosen.timezone and chosen.timezone not in zone_names():
        raise InvalidRequest(
            "there is no time zone '%(name)s'",
            name=chosen.timezone,
            hint=Sentence("choose one like Asia/Shanghai"),
        )
    Preferences.objects.update_or_create(
        user=user,
        defaults={"language": chosen.language, "timezone": chosen.timezone},
    )
