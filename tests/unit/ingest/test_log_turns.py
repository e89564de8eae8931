"""Which table of a session comes next."""

from __future__ import annotations

import pytest

from ingest.driver.apply.log_turns import Turn, backoff, look_pause, pause_of


def order(**turns: Turn) -> list[str]:
    return sorted(turns, key=lambda name: turns[name].urgency, reverse=True)


def test_what_is_most_and_waits_longest_goes_first() -> None:
    assert order(
        many=Turn(1000, 1, 5),
        old=Turn(10, 4, 5),
        few=Turn(10, 1, 5),
        new=Turn(1000, 0, 5),
    ) == ["many", "old", "few", "new"]


def test_whoever_is_past_its_freshness_goes_before_all_others() -> None:
    assert order(
        late=Turn(1, 6, 5), later=Turn(1, 3, 1), most=Turn(1_000_000, 4, 5)
    ) == ["later", "late", "most"]


def test_a_table_of_no_freshness_is_always_due() -> None:
    assert Turn(1, 0, 0).urgency > Turn(1_000_000, 4, 5).urgency


@pytest.mark.parametrize(
    ("freshness", "took", "seconds"),
    [(0, 0, 0), (5, 0, 1), (5, 0.1, 1), (5, 0.5, 2.5), (5, 3, 5), (5, 9, 9), (0, 2, 2)],
)
def test_dear_commits_are_fewer(freshness: float, took: float, seconds: float) -> None:
    assert pause_of(freshness, took) == seconds


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (4, 8), (7, 60), (10_000, 60)]
)
def test_failures_are_tried_again_ever_later(failures: int, seconds: float) -> None:
    assert backoff(failures) == seconds


@pytest.mark.parametrize(
    ("quiet", "freshness", "seconds"),
    [
        (0, 5, 0.1),
        (4.9, 5, 0.1),
        (5, 5, 0.5),
        (60, 0.5, 0.1),
        (60, 0, 0.1),
        (60, 90, 1),
    ],
)
def test_a_quiet_stream_is_looked_at_less_often_and_well_within_its_freshness(
    quiet: float, freshness: float, seconds: float
) -> None:
    assert look_pause(quiet, freshness, least=0.1, most=1.0) == seconds
    assert look_pause(quiet, freshness, least=2.0, most=1.0) == 2.0, "of a dear store"
