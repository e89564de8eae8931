"""Which session settings a client may bring or change. Pure.

Everything else is refused by name, except a few that clients send by habit and that
mean nothing here. The engine locks its own settings besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import AccessDenied, InvalidRequest
from core.sentences import as_sentence
from gateway.engines.settable import LONGEST_VALUE, names, rule_for
from gateway.limits import MOST_SETTINGS

LAKE_CATALOGS = frozenset({"lake", "spark_catalog"})
OWN_PREFIX = "sluice."
_HABITS = ("mapred.", "mapreduce.", "tez.", "hive.", "silent", "autocommit")
_VARIABLE = "set:hivevar:"
_PREFIXES = ("set:hiveconf:", _VARIABLE)
_SPARKS = ("spark.", "hoodie.", "fs.")
_PROXY = "hive.server2.proxy.user"
_REFUSED_PREFIXES = ("set:system:", "set:env:", "set:metaconf:")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What is left of OpenSession's configuration after filtering."""

    engine: Mapping[str, str] = field(default_factory=dict)
    database: str = ""


def require_settable(key: str, value: str | None = None) -> None:
    """Raise AccessDenied for a key that may not be set, or not to that value."""
    rule = rule_for(key)
    if rule is None:
        raise AccessDenied(
            "The setting %(key)s may not be changed here.",
            names=", ".join(names()),
            key=key[:LONGEST_VALUE],
            code="setting_not_allowed",
            hint="settable are %(names)s",
        )
    if value is not None and not rule.takes(value):
        raise AccessDenied(
            "The setting %(key)s must be %(what)s.",
            key=key,
            what=as_sentence(rule.words),
            code="setting_out_of_range",
        )


def session_settings(
    configuration: Mapping[str, str], *, username: str, compat: str = "spark"
) -> SessionSettings:
    """Filter OpenSession's configuration; raise for a key or value that is refused.

    A key counts with Hive's prefix and without. Hive variables are taken and mean
    nothing: statements are not substituted. `compat` is what the client needs unless
    it says so itself.
    """
    given = dict(configuration)
    database = _in_lake(given.pop("use:database", ""))
    settings = {"sluice.compat": compat} if compat != "spark" else {}
    settings |= statement_settings(given, username=username)
    engine = {f"set:hiveconf:{key}": value for key, value in settings.items()}
    return SessionSettings(engine, database)


def statement_settings(overlay: Mapping[str, str], *, username: str) -> dict[str, str]:
    """Filter the settings of one statement, by key; raise as `session_settings`."""
    _require_few(len(overlay))
    settings = {}
    for name, value in overlay.items():
        key = _bare(name)
        if key == _PROXY:
            _require_oneself(value, username)
        elif _is_setting(name, key):
            require_settable(key, value)
            settings[key] = value
    return settings


def _is_setting(name: str, key: str) -> bool:
    """False for what clients send by habit, and for variables of Hive."""
    if key.startswith(OWN_PREFIX):
        return True
    is_variable = name.startswith(_VARIABLE) and not key.startswith(_SPARKS)
    return not key.startswith(_HABITS) and not is_variable


def _in_lake(database: str) -> str:
    """A database without its catalog, which a URL may name as USE may."""
    catalog, _, name = database.partition(".")
    return name if name and catalog.lower() in LAKE_CATALOGS else database


def _require_few(count: int) -> None:
    if count > MOST_SETTINGS:
        raise InvalidRequest(
            "the session would have %(count)s settings; at most %(most)s are accepted",
            count=count,
            most=MOST_SETTINGS,
            code="too_many_settings",
        )


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    if name.startswith(_REFUSED_PREFIXES):
        require_settable(name)
    return name


def _require_oneself(value: str, username: str) -> None:
    if value == username:
        return
    if not value:
        raise InvalidRequest("hive.server2.proxy.user is empty")
    raise AccessDenied(
        "%(username)s may not work in the name of another user.",
        username=username,
        code="proxy_user_refused",
        hint="log in as the user himself, or leave hive.server2.proxy.user away",
    )
