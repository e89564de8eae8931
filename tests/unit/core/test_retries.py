"""Pauses after failures, and calls that are kept back: by examples."""

from __future__ import annotations

import pytest

from core.retries import Backoff, CircuitBreaker


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (Backoff(2, 300), [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (Backoff(0.5, 30), [0.5, 1, 2, 4, 8, 16, 30, 30]),
        (Backoff(5, 300), [5, 10, 20, 40, 80, 160, 300]),
        (Backoff(1, 1), [1, 1, 1]),
    ],
)
def test_a_pause_doubles_up_to_the_longest(backoff, pauses) -> None:
    assert [backoff.after(n + 1) for n in range(len(pauses))] == pauses


def test_no_number_of_failures_is_too_small_or_too_large() -> None:
    backoff = Backoff(2, 300)
    assert backoff.after(-1) == backoff.after(0) == backoff.after(1) == 2
    assert backoff.after(10**9) == 300


def test_a_breaker_keeps_calls_back_after_so_many_failures_in_a_row() -> None:
    breaker = CircuitBreaker(seconds=5, failures=3)
    for now in (0, 1):
        breaker.fail(now)
        assert breaker.allows(now)
    breaker.fail(2)
    assert [breaker.allows(now) for now in (2, 6.9, 7)] == [False, False, True]


def test_a_success_forgets_the_failures_before_it() -> None:
    breaker = CircuitBreaker(seconds=5, failures=2)
    breaker.fail(0)
    breaker.succeed()
    breaker.fail(1)
    assert breaker.allows(1)


def test_a_failed_trial_keeps_calls_back_again_at_once() -> None:
    breaker = CircuitBreaker(seconds=5, failures=3)
    for now in (0, 0, 0):
        breaker.fail(now)
    assert breaker.allows(5)
    breaker.fail(5)
    assert not breaker.allows(9)


def test_a_breaker_of_one_failure_is_the_default() -> None:
    breaker = CircuitBreaker(seconds=5)
    assert breaker.allows(0)
    breaker.fail(0)
    assert not breaker.allows(4)
