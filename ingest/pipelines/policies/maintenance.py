"""When a table is compacted, and the part of a day in which that may begin. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """When a table counts as in need of care: settings, with their defaults."""

    compact_after: int = 5
    compact_log_bytes: int = 256_000_000
    compact_log_ratio: float = 1.0
    compact_log_age_seconds: float = 86_400.0
    max_write_amplification: float = 10.0
    stuck_after_seconds: float = 3_600.0


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """From `start` to `end`, over midnight when end is the earlier one."""

    start: time
    end: time
    timezone: str = "UTC"


def quiet_from(value: Any) -> MaintenanceWindow | None:
    """From checked JSON {"from": "22:00", "to": "06:00", "timezone": "UTC"}."""
    if not value:
        return None
    return MaintenanceWindow(
        clock(value["from"]), clock(value["to"]), value.get("timezone") or "UTC"
    )


def clock(text: str) -> time:
    """ValueError unless it reads HH:MM."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a time of day")
    return time(int(found[1]), int(found[2]))


def opens_at(quiet: MaintenanceWindow, now: datetime) -> datetime | None:
    """None while they last, else the moment (UTC) when they begin next."""
    zone = ZoneInfo(quiet.timezone)
    local = now.astimezone(zone)
    at = local.time().replace(tzinfo=None)
    if quiet.start <= quiet.end:
        is_open = quiet.start <= at < quiet.end
    else:
        is_open = at >= quiet.start or at < quiet.end
    if is_open:
        return None
    day = local.date() if at < quiet.start else local.date() + timedelta(days=1)
    return datetime.combine(day, quiet.start, tzinfo=zone).astimezone(UTC)
