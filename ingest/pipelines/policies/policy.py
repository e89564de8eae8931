"""Settings that a table inherits from its database and datasource. Pure.

Each level may give some of them; the nearest one that does decides, and says so.
By them and its schedule a table is late.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from core.errors import InvalidRequest
from core.json_values import below
from core.sentences import Sentence, joined
from ingest.contract.driver_size import parse_driver
from ingest.pipelines.policies.maintenance import (
    MaintenancePolicy,
    MaintenanceWindow,
    clock,
    quiet_from,
)
from ingest.pipelines.policies.schedule import (
    MANUAL,
    Manual,
    Schedule,
    next_runs,
    parse_schedule,
    refuse_all,
    schedule_to_json,
    wrong_zone,
)
from ingest.pipelines.policies.verification import VerificationPolicy
from ingest.planning.drift import SCHEMA_POLICIES, SchemaPolicy

# A transaction shows at the source a moment after it took its time.
LEAST_LAG_SECONDS = 1
MOST_LAG_SECONDS = 24 * 3600
MOST_DELTA_COMMITS = 1000
MOST_LOG_BYTES = 2**50
MOST_LOG_RATIO = 1000
# each byte is written once, and once more when it is merged at the best time
LEAST_AMPLIFICATION = 2
MOST_AMPLIFICATION = 100_000
MONTH_SECONDS = 31 * 24 * 3600
YEAR_SECONDS = 366 * 24 * 3600
MOST_ROWS_PER_SECOND = 10**9
LEAST_FRESHNESS_SECONDS = 0.5
LEAST_WAITING_BYTES = 2**20
MOST_WAITING_BYTES = 2**50
LEAST_WAITING_SECONDS = 3600
NEW_TABLES = ("join", "ask", "ignore")
RESYNCS = ("ask", "auto")
OWN, DEFAULT = "table", "default"


@dataclass(frozen=True, slots=True)
class Level:
    """What one level gives. `name` is for people: "database shop.public"."""

    name: str
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effective:
    """The values that count, and by key the level each one is from.

    schedule     when syncs run
    lag_seconds  safety lag of timestamp capture behind the source's clock
    keeping      when the table is compacted, and when work on it counts as stuck
    quiet        the hours in which that may start; None = always
    late_after   seconds behind its schedule from which a table counts as late
    verification when the table is compared with its source automatically
    schema_changes  what becomes of columns that are added at the source
    freshness    seconds within which changes of a followed log shall be in the lake
    max_waiting  bytes of a stream that may wait for a table that does not go on;
                 max_waiting_seconds: for how long
    keep_changes seconds for which a followed log's changes stay for their readers
    """

    schedule: Schedule
    lag_seconds: float
    keeping: MaintenancePolicy
    quiet: MaintenanceWindow | None
    late_after: float
    verification: VerificationPolicy
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    schema_changes: SchemaPolicy
    freshness: float
    max_waiting: int
    max_waiting_seconds: float
    keep_changes: float

    @property
    def compact_after(self) -> int:
        """Delta commits after which a compaction is scheduled."""
        return self.keeping.compact_after

    def is_chosen(self, key: str) -> bool:
        """Whether it was set, at whatever level."""
        return self.origins[key] != DEFAULT

    def to_json(self) -> dict[str, Any]:
        return {
            key: {"value": value, "from": self.origins[key]}
            for key, value in self.values.items()
        }


def effective(chain: Sequence[Level]) -> Effective:
    """`chain` from the table upwards."""
    default = Level(DEFAULT, {**dict.fromkeys(KEYS), **DEFAULTS})
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key in KEYS:
        of = next((one for one in chain if one.given.get(key) is not None), default)
        values[key], origins[key] = of.given[key], of.name
    schedule = parse_schedule(values["schedule"])
    assert schedule is not None
    values["schedule"] = schedule_to_json(schedule)
    return Effective(
        schedule=schedule,
        lag_seconds=float(values["lag_seconds"]),
        keeping=MaintenancePolicy(**{key: values[key] for key in _MAINTENANCE}),
        quiet=quiet_from(values["maintenance_window"]),
        late_after=values["late_after_seconds"],
        verification=VerificationPolicy(**{key: values[key] for key in _VERIFICATION}),
        values=values,
        origins=origins,
        schema_changes=values["schema_changes"],
        freshness=values["freshness_seconds"],
        max_waiting=values["max_waiting_bytes"],
        max_waiting_seconds=values["max_waiting_seconds"],
        keep_changes=values["keep_changes_seconds"],
    )


def changed(
    given: Mapping[str, Any], change: Any, *, known: Collection[str] | None = None
) -> dict[str, Any]:
    """`given` after a merge patch; null takes a key back. All mistakes are told at
    once, each with its pointer; the code is that of the first.

    known: keys that the level can give; None = all
    """
    known = known or KEYS
    if not isinstance(change, Mapping):
        raise InvalidRequest(
            "expected an object with some of %(names)s", names=_list(known), pointer=""
        )
    new, mistakes = dict(given), []
    for key, value in change.items():
        try:
            _merge(new, key, value, known)
        except InvalidRequest as mistake:
            mistakes.append(mistake)
    if len(mistakes) > 1:
        raise InvalidRequest(
            joined(each.message for each in mistakes),
            code=mistakes[0].code,
            hint=mistakes[0].hint,
            facts={"errors": [one for m in mistakes for one in _errors(m)]},
        )
    if mistakes:
        raise mistakes[0]
    return new


def _list(names: Collection[str]) -> str:
    return ", ".join(names)


def _errors(mistake: InvalidRequest) -> list[Any]:
    errors: Any = mistake.facts.get("errors", ())
    return list(errors)


def _merge(new: dict[str, Any], key: str, value: Any, known: Collection[str]) -> None:
    if key not in known:
        raise InvalidRequest(
            "unknown field '%(name)s'; known: %(known)s",
            name=key,
            known=_list(known),
            pointer=below("", key),
            code="unknown_field",
        )
    if value is None:
        new.pop(key, None)
    else:
        new[key] = KEYS[key](value, f"/{key}")


def _schedule(value: Any, at: str) -> Any:
    return schedule_to_json(parse_schedule(value, at))


def _number(least: float, most: float) -> Callable[[Any, str], float]:
    def check(value: Any, at: str) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise InvalidRequest(
                "%(name)s must be a number from %(least)s to %(most)s",
                name=at[1:],
                least=f"{least:g}",
                most=f"{most:g}",
                pointer=at,
            )
        return float(value)

    return check


def _interval(least: float, most: float) -> Callable[[Any, str], float]:
    """Like a number; 0 switches off what a level above asks for."""
    check = _number(least, most)

    def check_interval(value: Any, at: str) -> float:
        is_off = value == 0 and not isinstance(value, bool)
        return 0.0 if is_off else check(value, at)

    return check_interval


def _whole(least: int, most: int) -> Callable[[Any, str], int]:
    def check(value: Any, at: str) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise InvalidRequest(
                "%(name)s must be a whole number from %(least)s to %(most)s",
                name=at[1:],
                least=least,
                most=most,
                pointer=at,
            )
        return int(value)

    return check


def _one_of(*known: str) -> Callable[[Any, str], str]:
    def check(value: Any, at: str) -> str:
        if not isinstance(value, str) or value not in known:
            raise InvalidRequest(
                "%(name)s must be one of %(known)s",
                name=at[1:],
                known=_list(known),
                pointer=at,
            )
        return value

    return check


def _quiet(value: Any, at: str) -> Any:
    if not isinstance(value, Mapping) or set(value) - {"from", "to", "timezone"}:
        raise InvalidRequest(
            "maintenance_window is %(example)s",
            example='{"from": "22:00", "to": "06:00", "timezone": …}',
            pointer=at,
        )
    found = {"timezone": value.get("timezone", "UTC")}
    wrong: dict[str, str] = {}
    for end in ("from", "to"):
        try:
            found[end] = f"{clock(value[end]):%H:%M}"
        except (KeyError, TypeError, ValueError):
            wrong[f"{at}/{end}"] = Sentence(
                "%(name)s must be a time of day like 22:00", name=end
            )
    if not wrong and found["from"] == found["to"]:
        wrong[f"{at}/to"] = (
            "the maintenance window must begin and end at different times"
        )
    if detail := wrong_zone(found["timezone"]):
        wrong[f"{at}/timezone"] = detail
    refuse_all(wrong)
    return found


def _driver(value: Any, at: str) -> Any:
    return dataclasses.asdict(parse_driver(value, at, most=None))


KEYS: Mapping[str, Callable[[Any, str], Any]] = {
    "schedule": _schedule,
    "lag_seconds": _number(LEAST_LAG_SECONDS, MOST_LAG_SECONDS),
    "compact_after": _whole(1, MOST_DELTA_COMMITS),
    "compact_log_bytes": _whole(1, MOST_LOG_BYTES),
    "compact_log_ratio": _number(0.01, MOST_LOG_RATIO),
    "compact_log_age_seconds": _number(60, MONTH_SECONDS),
    "max_write_amplification": _number(LEAST_AMPLIFICATION, MOST_AMPLIFICATION),
    "stuck_after_seconds": _number(60, MONTH_SECONDS),
    "maintenance_window": _quiet,
    "compact_driver": _driver,
    "late_after_seconds": _number(10, MONTH_SECONDS),
    "verify_every": _interval(60, YEAR_SECONDS),
    "verify_rows_per_second": _whole(0, MOST_ROWS_PER_SECOND),
    "schema_changes": _one_of(*SCHEMA_POLICIES),
    "new_tables": _one_of(*NEW_TABLES),
    "resync": _one_of(*RESYNCS),
    "freshness_seconds": _number(LEAST_FRESHNESS_SECONDS, MONTH_SECONDS),
    "max_waiting_bytes": _whole(LEAST_WAITING_BYTES, MOST_WAITING_BYTES),
    "max_waiting_seconds": _number(LEAST_WAITING_SECONDS, YEAR_SECONDS),
    "keep_changes_seconds": _number(0, MONTH_SECONDS),
}
# What a table itself can give: new ones are no table's.
TABLE_KEYS = tuple(key for key in KEYS if key != "new_tables")
_MAINTENANCE = dataclasses.asdict(MaintenancePolicy())
_VERIFICATION = dataclasses.asdict(VerificationPolicy())
DEFAULTS: Mapping[str, Any] = {
    **_MAINTENANCE,
    **_VERIFICATION,
    "schedule": MANUAL,
    "lag_seconds": 5.0,
    "late_after_seconds": 900,
    "schema_changes": "follow",
    "new_tables": "ignore",
    "resync": "ask",
    "freshness_seconds": 5.0,
    "max_waiting_bytes": 64 * 2**30,
    "max_waiting_seconds": float(MONTH_SECONDS),
    "keep_changes_seconds": 0.0,
}


def owing(
    policy: Effective, since: datetime, *, capture: str = "timestamp"
) -> dict[str, datetime | None]:
    """Columns of a table with this policy that owes what is due after `since`."""
    late = late_moment(policy, since, capture=capture)
    return {"due_since": since, "late_at": late}


def late_moment(policy: Effective, since: datetime, *, capture: str) -> datetime | None:
    if capture == "log":
        # its changes are due at once, whatever schedule other tables have
        return since + timedelta(seconds=policy.late_after)
    return late_at(policy.schedule, since, policy.late_after)


def due_since(
    began: datetime, behind_seconds: float, allowed_seconds: float
) -> datetime:
    """From when on syncs are owed by a table whose last complete one began then.

    That its rows are older, by the safety lag, is meant; what an open transaction kept
    behind that for longer than is allowed is owed still.
    """
    is_owed = behind_seconds > allowed_seconds
    return began - timedelta(seconds=behind_seconds) if is_owed else began


def late_at(
    schedule: Schedule, since: datetime, allowed_seconds: float
) -> datetime | None:
    """When a table that owes syncs since `since` counts as late; None = never.

    By its own schedule: one that runs once a day is not late after an hour.
    """
    if isinstance(schedule, Manual):
        return None
    due = next(iter(next_runs(schedule, since, 1)), None)
    return due + timedelta(seconds=allowed_seconds) if due else None
