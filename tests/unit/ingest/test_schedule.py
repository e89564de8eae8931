"""Next runs over changes of the clock, errors that name the field, words for people."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from core.errors import InvalidRequest
from ingest.pipelines.policies.schedule import (
    Cron,
    Every,
    Manual,
    in_words,
    next_runs,
    parse_schedule,
    schedule_to_json,
)

BERLIN, YORK, HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "after", "local"),
    [
        # the gap of spring: a fixed time inside it runs right behind it, once
        ("30 2 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00", "03-30 02:30"]),
        ("0,30 2 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00", "03-30 02:00"]),
        ("30 2 * * *", YORK, "2026-03-07T12:00", ["03-08 03:00", "03-09 02:30"]),
        ("15 2 * * *", HOWE, "2026-10-03T10:00", ["10-04 02:30", "10-05 02:15"]),
        # ... and beside it nothing changes
        ("0 4 * * *", BERLIN, "2026-03-28T12:00", ["03-29 04:00", "03-30 04:00"]),
        # the hour that comes twice in autumn: the first pass only
        ("30 2 * * *", BERLIN, "2026-10-24T12:00", ["10-25 02:30", "10-26 02:30"]),
        ("30 1 * * *", YORK, "2026-10-31T12:00", ["11-01 01:30", "11-02 01:30"]),
        ("45 1 * * *", HOWE, "2026-04-04T10:00", ["04-05 01:45", "04-06 01:45"]),
        # asked within the second pass, the first one does not come back
        ("30 2 * * *", BERLIN, "2026-10-25T01:15", ["10-26 02:30", "10-27 02:30"]),
        ("30 1 * * *", YORK, "2026-11-01T06:10", ["11-02 01:30", "11-03 01:30"]),
        # the half hour of Lord Howe
        ("0 * * * *", HOWE, "2026-04-04T14:30", ["04-05 02:00", "04-05 03:00"]),
        ("0 0 29 2 *", BERLIN, "2026-10-01T00:00", ["02-29 00:00", "02-29 00:00"]),
        ("0 0 L * *", BERLIN, "2026-01-31T12:00", ["02-28 00:00", "03-31 00:00"]),
        ("0 12 * * MON#2", YORK, "2026-10-25T01:15", ["11-09 12:00", "12-14 12:00"]),
    ],
)
def test_cron_over_changes_of_the_clock(cron, zone, after, local) -> None:
    schedule = parse_schedule({"cron": cron, "timezone": zone})
    runs = next_runs(schedule, utc(after), 2)
    shown = [run.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M") for run in runs]
    assert shown == local
    assert utc(after) < runs[0] < runs[1]


@pytest.mark.parametrize("zone", [BERLIN, YORK, HOWE, "America/Santiago"])
@pytest.mark.parametrize("at", ["00:00", "01:30", "02:00", "02:15", "02:45", "23:59"])
def test_a_daily_time_runs_once_on_every_day_of_a_year(zone, at) -> None:
    """Asked anew from each run on, as the product does."""
    hour, minute = at.split(":")
    daily = parse_schedule({"cron": f"{minute} {hour} * * *", "timezone": zone})
    run = datetime(2026, 1, 1, 23, 59, 30, tzinfo=ZoneInfo(zone))
    days = []
    for _ in range(365):
        (run,) = next_runs(daily, run, 1)
        days.append(run.astimezone(ZoneInfo(zone)).date())
    assert days == [date(2026, 1, 1) + timedelta(days=n) for n in range(1, 366)]


@pytest.mark.parametrize(
    ("zone", "day"),
    [(z, d) for z in (BERLIN, YORK, HOWE) for d in ("2026-03-28", "2026-10-31")],
)
def test_a_step_of_minutes_counts_real_minutes(zone, day) -> None:
    every = parse_schedule({"cron": "*/30 * * * *", "timezone": zone})
    runs = next_runs(every, utc(f"{day}T00:00"), 60)
    gaps = {(b - a).total_seconds() for a, b in itertools.pairwise(runs)}
    assert gaps == {1800.0}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"every_seconds": 1}, "Every second"),
        ({"every_seconds": 45}, "Every 45 seconds"),
        ({"every_seconds": 60}, "Every minute"),
        ({"every_seconds": 5400}, "Every 90 minutes"),
        ({"every_seconds": 7200}, "Every 2 hours"),
        (
            {"cron": "30 2 * * mon-fri", "timezone": BERLIN},
            f"At 02:30 on Monday through Friday, {BERLIN} time",
        ),
        ({"cron": "*/5 * * * *"}, "Every fifth minute of every hour, UTC time"),
        ("manual", "On request"),
        (None, "On request"),
    ],
)
def test_words(value, words) -> None:
    assert in_words(parse_schedule(value)) == words


def test_round_trip_and_intervals() -> None:
    for schedule in (Every(30), Cron("0 3 * * *", BERLIN), Manual(), None):
        assert parse_schedule(schedule_to_json(schedule)) == schedule
    assert next_runs(Manual(), utc("2026-01-01T00:00"), 3) == []
    assert next_runs(Every(90), utc("2026-01-01T00:00"), 2) == [
        utc("2026-01-01T00:01:30"),
        utc("2026-01-01T00:03"),
    ]


@pytest.mark.parametrize(
    ("value", "pointer", "said"),
    [
        ({"cron": "0 0 30 2 *"}, "/schedule/cron", "day-of-month '30'"),
        ({"cron": "0 0 31 4,6,9,11 *"}, "/schedule/cron", "day-of-month '31'"),
        ({"cron": "61 * * * *"}, "/schedule/cron", "allowed are 0-59"),
        ({"cron": "0 24 * * *"}, "/schedule/cron", "hour '24'"),
        ({"cron": "0 0 * * XYZ"}, "/schedule/cron", "SUN-SAT"),
        ({"cron": "0 0 * *"}, "/schedule/cron", "day-of-week), as in 30 2 * * MON-FRI"),
        ({"cron": "0 0 * *"}, "/schedule/cron", "4 fields, not five"),
        ({"cron": "0 0 0 * * *"}, "/schedule/cron", "6 fields, not five"),
        ({"cron": "@daily"}, "/schedule/cron", "2 * * MON-FRI"),
        ({"cron": "*/0 * * * *"}, "/schedule/cron", "minute '*/0'"),
        ({"cron": 5}, "/schedule/cron", "five fields"),
        ({"cron": "0 0 * * *,*" + ",*" * 200}, "/schedule/cron", "five fields"),
        ({"cron": "0 3 * * *", "timezone": "Berlin"}, "/schedule/timezone", "IANA"),
        ({"cron": "0 3 * * *", "timezone": "../x"}, "/schedule/timezone", "IANA"),
        ({"cron": "0 3 * * *", "timezone": None}, "/schedule/timezone", "IANA"),
        ({"cron": "0 3 * * *", "every_seconds": 5}, "/schedule/every_seconds", "known"),
        ({"every_seconds": 0}, "/schedule/every_seconds", "from 1 to"),
        ({"every_seconds": True}, "/schedule/every_seconds", "from 1 to"),
        ({}, "/schedule/every_seconds", "from 1 to"),
        ("daily", "/schedule", "manual"),
        ([], "/schedule", "every_seconds"),
    ],
)
def test_mistakes_name_the_field_what_is_allowed_and_an_example(value, pointer, said):
    with pytest.raises(InvalidRequest) as caught:
        parse_schedule(value)
    assert caught.value.facts["errors"][0]["pointer"] == pointer
    assert said in caught.value.message
