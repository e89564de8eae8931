"""When a table is verified next: a table of examples."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from core.errors import InvalidRequest
from ingest.pipelines.policies.maintenance import MaintenanceWindow
from ingest.pipelines.policies.policy import Level, changed, effective
from ingest.pipelines.policies.verification import VerificationPolicy, due_at, retry_at

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = VerificationPolicy(verify_every=3600)
NIGHT = MaintenanceWindow(time(22), time(6))
NOON = MaintenanceWindow(time(11), time(13))


@pytest.mark.parametrize(
    ("policy", "verified_at", "quiet", "expected"),
    [
        (VerificationPolicy(), None, None, None),
        (VerificationPolicy(), NOW - HOUR, NIGHT, None),
        (HOURLY, None, None, NOW),
        (HOURLY, None, NOON, NOW),
        (HOURLY, None, NIGHT, NOW.replace(hour=22)),
        (HOURLY, NOW - timedelta(minutes=20), None, NOW + timedelta(minutes=40)),
        (HOURLY, NOW - 9 * HOUR, None, NOW),
        (HOURLY, NOW - 9 * HOUR, NIGHT, NOW.replace(hour=22)),
        # due while the quiet hours last, but only after they have begun
        (HOURLY, NOW, NOON, NOW.replace(day=2, hour=11)),
    ],
)
def test_when_it_is_due(policy, verified_at, quiet, expected) -> None:
    assert due_at(policy, verified_at=verified_at, quiet=quiet, now=NOW) == expected


@pytest.mark.parametrize(
    ("every", "expected"), [(0, None), (600, 600), (3600, 3600), (86400, 3600)]
)
def test_when_it_is_tried_again(every: float, expected: float | None) -> None:
    again = retry_at(VerificationPolicy(verify_every=every), now=NOW)
    assert again == (None if expected is None else NOW + timedelta(seconds=expected))


def test_the_nearest_level_decides_and_zero_switches_off() -> None:
    source = Level("datasource shop", {"verify_every": 86400.0})
    inherited = effective([Level("table", {}), source])
    assert inherited.verification.verify_every == 86400
    assert inherited.origins["verify_every"] == "datasource shop"
    off = effective([Level("table", {"verify_every": 0.0}), source])
    assert not off.verification.is_on


@pytest.mark.parametrize("value", [59, -1, True, "daily", 10**9])
def test_what_is_no_interval_is_refused_with_its_pointer(value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        changed({}, {"verify_every": value})
    assert refused.value.facts["errors"][0]["pointer"] == "/verify_every"
