"""What a master answers that is none: nobody knows then what runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.driver_host.cluster import App, MasterAway, StandaloneMaster

MINE = {"id": "app-1", "name": "sluice-me-job-1"}


def master(monkeypatch: pytest.MonkeyPatch, answer: Any) -> StandaloneMaster:
    found = StandaloneMaster("http://m:8080", instance="me")
    monkeypatch.setattr(found, "_call", lambda *_: json.dumps(answer).encode())
    return found


def test_its_living_applications_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    apps = [MINE, {"id": "app-2", "name": "other"}]
    one = master(monkeypatch, {"status": "ALIVE", "activeapps": apps})
    assert one.apps() == [App("app-1", "sluice-me-job-1")]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"activeapps": None},
        {"activeapps": ["sluice-me-job-1"]},
        {"activeapps": [{"name": "sluice-me-job-1"}]},
    ],
)
def test_an_answer_without_them_does_not_mean_that_none_runs(
    monkeypatch: pytest.MonkeyPatch, more: Any
) -> None:
    one = master(monkeypatch, {"status": "ALIVE"} | more)
    with pytest.raises(MasterAway):
        one.apps()
