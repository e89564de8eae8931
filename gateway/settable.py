"""Which session settings a client may bring or change. Pure.

Everything else is refused by name, except a few that clients send by habit and that
mean nothing here. The engine locks its own settings besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import AccessDenied, InvalidRequest

SETTABLE = frozenset(
    {
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        "spark.sql.ansi.enabled",
        "spark.sql.adaptive.enabled",
        "spark.sql.thriftServer.incrementalCollect",
        "spark.sql.thriftServer.queryTimeout",
        "spark.sql.crossJoin.enabled",
    }
)
OWN_PREFIX = "sluice."
_HABITS = ("mapred.", "mapreduce.", "tez.", "hive.", "silent", "autocommit")
_PREFIXES = ("set:hiveconf:", "set:hivevar:")
_PROXY = "hive.server2.proxy.user"
_REFUSED_PREFIXES = ("set:system:", "set:env:", "set:metaconf:")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What is left of OpenSession's configuration after filtering."""

    engine: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    database: str = ""


def is_settable(key: str) -> bool:
    """True when a user may change this key by SET."""
    return key in SETTABLE or key.startswith(OWN_PREFIX)


def require_settable(key: str) -> None:
    """Raise AccessDenied for a key that may not be set."""
    if not is_settable(key):
        raise AccessDenied(
            f"The setting {key} may not be changed here.",
            code="setting_not_allowed",
            hint=f"settable are {', '.join(sorted(SETTABLE))} and {OWN_PREFIX}*",
        )


def session_settings(
    configuration: Mapping[str, str], *, username: str
) -> SessionSettings:
    """Filter OpenSession's configuration; raise for a key that is refused."""
    engine: dict[str, str] = {}
    own: dict[str, str] = {}
    database = ""
    for name, value in configuration.items():
        if name == "use:database":
            database = value
            continue
        key = _bare(name)
        if key == _PROXY:
            _require_oneself(value, username)
        elif key.startswith(OWN_PREFIX):
            own[key] = value
        elif key != name and not key.startswith(_HABITS):
            require_settable(key)
            engine[f"set:hiveconf:{key}"] = value
    return SessionSettings(engine, own, database)


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
        f"{username} may not work in the name of another user.",
        code="proxy_user_refused",
        hint="log in as the user himself, or leave hive.server2.proxy.user away",
    )
