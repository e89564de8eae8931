"""Strangers who ask at once make one look, and nobody waits for one that hangs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.test import Client
from prometheus_client import generate_latest

from catalog.api.single_flight import OneLook
from tests.waiting import LIMIT_SECONDS


def test_each_call_alone_looks() -> None:
    seen = iter(range(9))
    look = OneLook(lambda: next(seen))
    assert [look.answer(), look.answer()] == [0, 1]


def test_the_answer_before_is_given_while_one_looks() -> None:
    begun, go_on = threading.Event(), threading.Event()
    answers = iter(("first", "second"))

    def slow() -> str:
        found = next(answers)
        if found == "second":
            begun.set()
            assert go_on.wait(LIMIT_SECONDS)
        return found

    look = OneLook(slow)
    assert look.answer() == "first"
    with ThreadPoolExecutor(1) as other:
        second = other.submit(look.answer)
        assert begun.wait(LIMIT_SECONDS)
        assert [look.answer() for _ in range(50)] == ["first"] * 50
        go_on.set()
        assert second.result(LIMIT_SECONDS) == "second"


def test_after_a_long_look_the_answer_stays_for_a_while() -> None:
    """A stranger who asks without end takes a part of the database's time."""
    now, looks = 0.0, 0

    def slow() -> int:
        nonlocal now, looks
        now, looks = now + 1.0, looks + 1
        return looks

    look = OneLook(slow, clock=lambda: now)
    assert [look.answer() for _ in range(9)] == [1] * 9
    now += 4.0
    assert look.answer() == 2


def test_a_look_that_fails_is_made_again() -> None:
    def failing() -> str:
        raise OSError("away")

    look = OneLook(failing)
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            look.answer()


def test_a_word_of_a_stranger_is_no_counter_for_ever() -> None:
    for number in range(3):
        Client().generic(f"BREW{number}", "/health/live")
    text = generate_latest().decode()
    assert 'method="other"' in text
    assert "BREW" not in text
