"""When a table's syncs run: every so many seconds, by cron in a time zone, or by hand.

Pure values: parsed with errors that name the field, the next moments counted exactly
over changes of the clock, and told in words. Must not know rows or the present time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from core.errors import InvalidRequest
from core.json_values import below
from core.sentences import Sentence
from core.time_zones import zone_names

MIN_SECONDS, MAX_SECONDS = 1, 31 * 24 * 3600
LONGEST_CRON = 200
_COUNTED = 100
MANUAL = "manual"
ON_REQUEST, ONCE = "On request", "Loaded once"
FOLLOWS = "As changes arrive"
CRON_EXAMPLE = "30 2 * * MON-FRI"
EXAMPLE = f'{{"cron": "{CRON_EXAMPLE}", "timezone": "Europe/Berlin"}}'
_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": Sentence("1-31 that the months have, L (the last)"),
    "month": "1-12 or JAN-DEC",
    "day-of-week": Sentence("0-7 or SUN-SAT (0 and 7 are Sunday)"),
}
_BAD = re.compile(r"Bad (\S+)")


@dataclass(frozen=True, slots=True)
class Every:
    seconds: int


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields as cron has them, read in an IANA time zone."""

    expression: str
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Manual:
    """Syncs run on request."""


Schedule = Every | Cron | Manual


def parse_schedule(value: Any, at: str = "/schedule") -> Schedule | None:
    """None stays None: not said here. InvalidRequest with a pointer below `at`."""
    if value is None:
        return None
    if value == MANUAL:
        return Manual()
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            'expected {"every_seconds": 60}, %(cron)s, "%(manual)s" or null',
            cron=EXAMPLE,
            manual=MANUAL,
            pointer=at,
        )
    if "cron" in value:
        _only(value, {"cron", "timezone"}, at)
        return _cron(value["cron"], value.get("timezone", "UTC"), at)
    _only(value, {"every_seconds"}, at)
    return _every(value.get("every_seconds"), at)


def schedule_to_json(schedule: Schedule | None) -> Any:
    """The form that `parse_schedule` takes."""
    if isinstance(schedule, Every):
        return {"every_seconds": schedule.seconds}
    if isinstance(schedule, Cron):
        return {"cron": schedule.expression, "timezone": schedule.timezone}
    return None if schedule is None else MANUAL


def next_runs(schedule: Schedule | None, after: datetime, n: int) -> list[datetime]:
    """The next `n` moments strictly after `after`, in UTC and ascending.

    A fixed time of day that the clock jumps over runs right behind the gap; one that
    comes twice runs the first time only. Schedules with `*` as minute or hour count
    real minutes through both.
    """
    after = after.astimezone(UTC)
    if isinstance(schedule, Every):
        step = timedelta(seconds=schedule.seconds)
        return [after + step * count for count in range(1, n + 1)]
    if not isinstance(schedule, Cron):
        return []
    found: list[datetime] = []
    for moment in CronSim(schedule.expression, after.astimezone(_zone(schedule))):
        run = moment.astimezone(UTC)
        # within an hour that comes twice, the first pass is offered once more, and
        # times that a gap pushes together are one run
        if run > (found[-1] if found else after):
            found.append(run)
        if len(found) >= n:
            break
    return found


def describe_skipped(schedule: Schedule | None, began: datetime, now: datetime) -> str:
    """What cron asked for while a sync that began at `began` was going, or ""."""
    if not isinstance(schedule, Cron):
        return ""
    missed = [run for run in next_runs(schedule, began, _COUNTED) if run <= now]
    if not missed:
        return ""
    first = f"{missed[0]:%Y-%m-%d %H:%M}"
    if len(missed) == 1:
        return Sentence(
            "the run due at %(first)s UTC was skipped: the sync before was still going",
            first=first,
        )
    return Sentence(
        "%(count)s runs, the first due at %(first)s UTC, were skipped: the sync before"
        " was still going",
        count=f"{'≥ ' if len(missed) == _COUNTED else ''}{len(missed)}",
        first=first,
    )


def in_words(schedule: Schedule | None) -> str:
    """English for people: "At 02:30 every day, Europe/Berlin time"."""
    if not isinstance(schedule, Cron):
        return translatable(schedule)
    words = CronSim(schedule.expression, datetime(2000, 1, 1)).explain()  # noqa: DTZ001
    return f"{words}, {schedule.timezone} time"


def translatable(schedule: Schedule | None) -> Sentence:
    """For readers of any language: what explains cron knows English only, so it is
    shown as it is."""
    if isinstance(schedule, Every):
        return Sentence("Every %(time)s", time=_duration(schedule.seconds))
    if isinstance(schedule, Cron):
        return Sentence(
            "By cron %(cron)s, %(timezone)s time",
            cron=schedule.expression,
            timezone=schedule.timezone,
        )
    return Sentence(ON_REQUEST)


def every_seconds_of(schedule: Schedule | None) -> int | None:
    return schedule.seconds if isinstance(schedule, Every) else None


def _zone(schedule: Cron) -> ZoneInfo:
    return ZoneInfo(schedule.timezone)


_UNITS = (
    (86_400, Sentence("day"), Sentence("%(count)s days")),
    (3600, Sentence("hour"), Sentence("%(count)s hours")),
    (60, Sentence("minute"), Sentence("%(count)s minutes")),
    (1, Sentence("second"), Sentence("%(count)s seconds")),
)


def _duration(seconds: int) -> Sentence:
    size, one, many = next(unit for unit in _UNITS if seconds % unit[0] == 0)
    return one if seconds == size else Sentence(many.message, count=seconds // size)


def _every(seconds: Any, at: str) -> Every:
    is_number = isinstance(seconds, int) and not isinstance(seconds, bool)
    if not is_number or not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise InvalidRequest(
            "%(name)s must be a whole number from %(least)s to %(most)s",
            name="every_seconds",
            least=MIN_SECONDS,
            most=MAX_SECONDS,
            pointer=f"{at}/every_seconds",
        )
    return Every(cast(int, seconds))


def _cron(expression: Any, timezone: Any, at: str) -> Cron:
    """A wrong time zone does not hide what is wrong with the expression."""
    wrong = {
        f"{at}/cron": _wrong_in(expression),
        f"{at}/timezone": wrong_zone(timezone),
    }
    refuse_all({pointer: detail for pointer, detail in wrong.items() if detail})
    return Cron(" ".join(expression.upper().split()), timezone)


def wrong_zone(name: Any) -> str:
    """What is wrong with the name of a time zone; "" = nothing."""
    if isinstance(name, str) and name in zone_names():
        return ""
    return Sentence(
        "'%(name)s' is no IANA time zone, as Europe/Berlin or UTC are",
        name=str(name)[:60],
    )


def _wrong_in(expression: Any) -> str:
    """What is wrong with an expression of cron in any time zone; "" = nothing."""
    if not isinstance(expression, str) or len(expression) > LONGEST_CRON:
        return Sentence(
            "cron must be a text of five fields, as in %(example)s",
            example=CRON_EXAMPLE,
        )
    fields = expression.upper().split()
    if len(fields) != len(_FIELDS):
        return Sentence(
            "cron has %(count)s fields, not five (%(fields)s), as in %(example)s",
            count=len(fields),
            fields=" ".join(_FIELDS),
            example=CRON_EXAMPLE,
        )
    schedule = Cron(" ".join(fields))
    try:
        runs = next_runs(schedule, datetime(2000, 1, 1, tzinfo=UTC), 1)
    except CronSimError as error:
        return _said(error, fields)
    if runs:
        return ""
    return Sentence("'%(cron)s' names no day that ever comes", cron=schedule.expression)


def _said(error: CronSimError, fields: list[str]) -> str:
    named = _BAD.search(str(error))
    name = named[1] if named else ""
    if name not in _FIELDS:
        return Sentence(
            "cron: %(error)s; an example: %(example)s",
            error=error,
            example=CRON_EXAMPLE,
        )
    given = fields[list(_FIELDS).index(name)]
    return Sentence(
        "the %(field)s '%(given)s' of cron is not possible: allowed are %(values)s,"
        " also lists 1,2 ranges 1-5 and steps */15; an example: %(example)s",
        field=name,
        given=given,
        values=_FIELDS[name],
        example=CRON_EXAMPLE,
    )


def _only(value: Mapping[str, Any], known: set[str], at: str) -> None:
    for name in value:
        if name not in known:
            raise InvalidRequest(
                "unknown field '%(name)s'; known: %(known)s",
                name=name,
                known=", ".join(sorted(known)),
                pointer=below(at, name),
                code="unknown_field",
            )


def refuse_all(wrong: Mapping[str, str]) -> None:
    """By pointer; the first speaks for all."""
    if not wrong:
        return
    errors = [{"pointer": at, "detail": detail} for at, detail in wrong.items()]
    first = next(iter(wrong.values()))
    raise InvalidRequest(first, code="invalid_request", facts={"errors": errors})
