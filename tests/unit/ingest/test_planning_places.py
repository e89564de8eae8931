"""Requests for many tables are planned by few at a time."""

from __future__ import annotations

import threading

import pytest

from catalog.api.user_concurrency import TooManyRequests
from ingest.api import planning_places
from ingest.api.planning_places import PLANS, planning_place
from ingest.pipelines.requests import OnboardingRequest, parse_request


def asked(*include: str) -> OnboardingRequest:
    return parse_request({"datasource": "shop", "include": list(include)})


def test_who_asks_for_many_tables_waits_for_the_one_before() -> None:
    with planning_place("ann", asked("public.*")):
        has_it = threading.Event()

        def ask() -> None:
            with planning_place("ann", asked("public.*")):
                has_it.set()

        second = threading.Thread(target=ask)
        second.start()
        assert not has_it.is_set()
        assert PLANS.taken == 1
    second.join()
    assert has_it.is_set()
    assert PLANS.taken == 0


def test_who_waits_for_long_is_told_to_come_again(monkeypatch) -> None:
    monkeypatch.setattr(planning_places, "WAIT_SECONDS", 0.0)
    with planning_place("ann", asked("public.*")):
        names = [f"public.t{n}" for n in range(planning_places.MOST_NAMES + 1)]
        for wish in (asked("public.*"), asked(*names)):
            with pytest.raises(TooManyRequests) as refused:
                planning_place("ann", wish)
            assert refused.value.facts["retry_after_seconds"] > 0
        with (
            planning_place("ann", asked(*names[1:])),
            planning_place("bob", asked("*")),
        ):
            assert PLANS.taken == 2
