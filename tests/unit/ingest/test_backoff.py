"""What deaths of drivers mean for the job that was in them."""

from __future__ import annotations

import pytest

from ingest.jobs.leases import Deaths, wait_after


@pytest.mark.parametrize(
    ("moments", "seen", "counted"),
    [
        ([], 0, 0),
        ([100], 1, 1),
        # one glitch, however often something dies in it
        ([100, 100.02, 100.4, 102], 4, 1),
        # as long as the pauses between them allow
        ([100, 110, 129.9], 3, 1),
        ([100, 110, 130, 131], 4, 2),
        ([100, 200, 300, 400], 4, 4),
        # a clock that goes back hides none
        ([100, 40], 2, 2),
    ],
)
def test_deaths_within_seconds_count_once(moments, seen, counted) -> None:
    deaths = Deaths()
    for moment in moments:
        deaths = Deaths.of(deaths.another(moment).to_payload())
    assert (deaths.seen, deaths.counted) == (seen, counted)


def test_a_job_of_before_keeps_its_deaths() -> None:
    assert Deaths.of({"deaths": 2}) == Deaths(2, 2, 0.0)
    assert Deaths.of({}).to_payload() == {}


def test_a_table_that_always_kills_its_driver_is_found_out() -> None:
    """The pauses grow, so that its deaths leave the window of one glitch."""
    deaths, now, tries = Deaths(), 0.0, 0
    while deaths.counted < 4:
        deaths = deaths.another(now)
        now += wait_after(deaths.seen)
        tries += 1
    assert tries <= 8
