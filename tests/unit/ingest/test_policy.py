"""Which level decides a setting, and what a level may be given."""

from __future__ import annotations

import pytest

from core.errors import InvalidRequest
from ingest.api.requests import PolicyChange
from ingest.pipelines.policies.policy import KEYS, Level, changed, effective
from ingest.pipelines.policies.schedule import Every, Manual


def chain(table, database, source):
    levels = zip(
        ("table", "database d", "datasource s"), (table, database, source), strict=True
    )
    return [Level(name, given) for name, given in levels]


@pytest.mark.parametrize(
    ("table", "database", "source", "expected"),
    [
        ({}, {}, {}, (5.0, "default")),
        ({}, {}, {"lag_seconds": 7.0}, (7.0, "datasource s")),
        ({"lag_seconds": 1.0}, {"lag_seconds": 2.0}, {}, (1.0, "table")),
        ({"schedule": "manual"}, {"lag_seconds": 2.0}, {}, (2.0, "database d")),
    ],
)
def test_the_nearest_level_that_says_something_decides(
    table, database, source, expected
) -> None:
    found = effective(chain(table, database, source))
    assert (found.lag_seconds, found.origins["lag_seconds"]) == expected


def test_by_hand_is_something_a_table_can_say() -> None:
    hourly = {"schedule": {"every_seconds": 3600}}
    inherited = effective(chain({}, {}, hourly))
    own = effective(chain({"schedule": "manual"}, {}, hourly))
    assert (inherited.schedule, own.schedule) == (Every(3600), Manual())
    assert own.to_json()["schedule"] == {"value": "manual", "from": "table"}


def test_a_change_is_a_merge_and_null_takes_back() -> None:
    given = changed({"lag_seconds": 3.0}, {"compact_after": 4})
    assert given == {"lag_seconds": 3.0, "compact_after": 4}
    assert changed(given, {"lag_seconds": None}) == {"compact_after": 4}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"speed": 1}, "/speed"),
        ({"a/b": 1}, "/a~1b"),
        ({"lag_seconds": -1}, "/lag_seconds"),
        ({"lag_seconds": 0.5}, "/lag_seconds"),
        ({"lag_seconds": True}, "/lag_seconds"),
        ({"lag_seconds": float("nan")}, "/lag_seconds"),
        ({"compact_after": 0}, "/compact_after"),
        ({"compact_after": 2.0}, "/compact_after"),
        ({"schedule": {"cron": "x"}}, "/schedule/cron"),
        ([], ""),
    ],
)
def test_wrong_settings_have_pointers(change, pointer) -> None:
    with pytest.raises(InvalidRequest) as caught:
        changed({}, change)
    assert caught.value.facts["errors"][0]["pointer"] == pointer


def test_all_mistakes_of_a_change_are_told_at_once() -> None:
    wrong = {"compact_after": 0, "surprise": 1, "lag_seconds": "x", "schedule": None}
    with pytest.raises(InvalidRequest) as caught:
        changed({}, wrong)
    pointers = [one["pointer"] for one in caught.value.facts["errors"]]
    assert pointers == ["/compact_after", "/surprise", "/lag_seconds"]


def test_the_documented_settings_are_those_that_are_checked() -> None:
    assert set(PolicyChange().fields) == set(KEYS)
