"""Settings that a table inherits from its database and datasource. Pure.

Each level may give some of them; the nearest one that does decides, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from core.errors import InvalidRequest
from ingest.schedule import Schedule, parse_schedule, schedule_to_json

MOST_LAG_SECONDS = 24 * 3600
MOST_DELTA_COMMITS = 1000
OWN, DEFAULT = "table", "default"


@dataclass(frozen=True, slots=True)
class Level:
    """What one level gives. `name` is for people: "database shop.public"."""

    name: str
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effective:
    """The values that count, and by key the level each one is from.

    schedule       when rounds run
    lag_seconds    safety lag of timestamp capture behind the source's clock
    compact_after  delta commits after which a compaction is scheduled
    """

    schedule: Schedule
    lag_seconds: float
    compact_after: int
    origins: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        values = {
            "schedule": schedule_to_json(self.schedule),
            "lag_seconds": self.lag_seconds,
            "compact_after": self.compact_after,
        }
        return {k: {"value": v, "from": self.origins[k]} for k, v in values.items()}


def effective(chain: Sequence[Level], defaults: Mapping[str, Any]) -> Effective:
    """`chain` from the table upwards; `defaults` has every key."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for level in (*chain, Level(DEFAULT, defaults)):
        for key in KEYS:
            if key not in values and level.given.get(key) is not None:
                values[key] = level.given[key]
                origins[key] = level.name
    schedule = parse_schedule(values["schedule"])
    assert schedule is not None
    return Effective(
        schedule=schedule,
        lag_seconds=float(values["lag_seconds"]),
        compact_after=int(values["compact_after"]),
        origins=origins,
    )


def changed(given: Mapping[str, Any], change: Any) -> dict[str, Any]:
    """`given` after a merge patch; null takes a key back. Errors have pointers."""
    if not isinstance(change, Mapping):
        _refuse("", "expected an object with some of " + ", ".join(KEYS))
    new = dict(given)
    for key, value in change.items():
        if key not in KEYS:
            escaped = str(key).replace("~", "~0").replace("/", "~1")
            known = ", ".join(KEYS)
            _refuse(
                f"/{escaped}", f"unknown field '{key}'; known: {known}", "unknown_field"
            )
        if value is None:
            new.pop(key, None)
        else:
            new[key] = KEYS[key](value, f"/{key}")
    return new


def _schedule(value: Any, at: str) -> Any:
    return schedule_to_json(parse_schedule(value, at))


def _lag(value: Any, at: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MOST_LAG_SECONDS:
        _refuse(at, f"lag_seconds must be a number from 0 to {MOST_LAG_SECONDS}")
    return float(value)


def _compact_after(value: Any, at: str) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= MOST_DELTA_COMMITS:
        _refuse(
            at, f"compact_after must be a whole number from 1 to {MOST_DELTA_COMMITS}"
        )
    return int(value)


KEYS: Mapping[str, Callable[[Any, str], Any]] = {
    "schedule": _schedule,
    "lag_seconds": _lag,
    "compact_after": _compact_after,
}


def _refuse(pointer: str, detail: str, code: str = "invalid_request") -> NoReturn:
    errors = [{"pointer": pointer, "detail": detail}]
    raise InvalidRequest(detail, code=code, facts={"errors": errors})
