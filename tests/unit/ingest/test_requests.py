from __future__ import annotations

import pytest

from core.errors import InvalidRequest
from ingest.pipelines.policies.schedule import Every
from ingest.pipelines.requests import parse_request

GOOD = {"datasource": "shop", "include": ["public.*"]}


def test_defaults() -> None:
    asked = parse_request(GOOD)
    assert (asked.capture, asked.schedule) == ("timestamp", None)
    assert (asked.dry_run, asked.approve) == (False, False)


def test_everything() -> None:
    asked = parse_request(
        {
            **GOOD,
            "exclude": ["public.x"],
            "capture": "timestamp",
            "schedule": {"every_seconds": 5},
            "target_database": "mart",
            "tables": {
                "public.a": {"record_key": ["id"], "cursor": "u", "buckets": 4},
                "public.b": {"record_key": "row_hash"},
                "public.c": {"record_key": None},
            },
        }
    )
    assert asked.schedule == Every(5)
    assert asked.to_data()["schedule"] == {"every_seconds": 5}
    assert asked.tables["public.a"].record_key == ("id",)
    assert asked.tables["public.b"].record_key == "row_hash"
    assert asked.tables["public.c"].record_key is None


def test_later_releases_are_told_apart() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_request({**GOOD, "capture": "log"})
    assert caught.value.code == "not_yet"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ({"include": ["a.*"]}, "/datasource"),
        ({"datasource": "s"}, "/include"),
        ({"datasource": "s", "include": []}, "/include"),
        ({"datasource": "s", "include": "a.*"}, "/include"),
        ({"datasource": "s", "include": ["a.*", 3]}, "/include/1"),
        ({**GOOD, "capture": "guess"}, "/capture"),
        ({**GOOD, "schedule": {"every_seconds": 0}}, "/schedule/every_seconds"),
        ({**GOOD, "schedule": {"every_seconds": True}}, "/schedule/every_seconds"),
        ({**GOOD, "schedule": {"hourly": 1}}, "/schedule/hourly"),
        ({**GOOD, "schedule": {"cron": "0 0 30 2 *"}}, "/schedule/cron"),
        ({**GOOD, "schedule": "manual", "capture": "snapshot"}, "/schedule"),
        ({**GOOD, "dry_run": "yes"}, "/dry_run"),
        ({**GOOD, "surprise": 1}, "/surprise"),
        ({**GOOD, "tables": {"a/b": {"kee": 1}}}, "/tables/a~1b/kee"),
        ({**GOOD, "tables": {"a": {"record_key": "id"}}}, "/tables/a/record_key"),
        ({**GOOD, "tables": {"a": {"buckets": "4"}}}, "/tables/a/buckets"),
        ({**GOOD, "target_database": ""}, "/target_database"),
    ],
)
def test_mistakes_have_pointers(body, pointer) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_request(body)
    assert caught.value.facts["errors"][0]["pointer"] == pointer
