"""What a request to add tables may be: its shape by the serializer, then its meaning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from rest_framework.exceptions import ValidationError

from catalog.api.problems import problem_of
from catalog.api.serializers import MOST_ERRORS
from catalog.api.views import body_of
from core.errors import InvalidRequest
from ingest.api.requests import OnboardingNew
from ingest.pipelines.policies.schedule import Every
from ingest.pipelines.requests import LONGEST_WILD, MOST_WILD, OnboardingRequest
from ingest.pipelines.requests import parse_request as meaning_of

GOOD = {"datasource": "shop", "include": ["public.*"]}


def parse_request(body: object) -> OnboardingRequest:
    """As REST does."""
    request: Any = SimpleNamespace(data=body, headers={})
    return meaning_of(body_of(OnboardingNew, request))


def test_defaults() -> None:
    asked = parse_request(GOOD)
    assert (asked.capture, asked.schedule) == (None, None)
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


def test_members_under_their_other_names() -> None:
    asked = parse_request(
        {
            **GOOD,
            "defaults": {"capture": "timestamp", "schedule": {"every_seconds": 5}},
            "tables": {"public.a": {"lake_name": "first"}},
        }
    )
    assert (asked.capture, asked.schedule) == ("timestamp", Every(5))
    assert asked.tables["public.a"].lake == "first"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (
            {"capture": "log", "defaults": {"capture": "snapshot"}},
            "/defaults/capture",
        ),
        (
            {"tables": {"public.a": {"lake": "mart.a", "lake_name": "b"}}},
            "/tables/public.a/lake_name",
        ),
    ],
)
def test_what_is_said_twice_must_agree(given: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_request({**GOOD, **given})
    assert caught.value.facts["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("capture", ["log", "snapshot"])
def test_what_has_no_syncs_takes_no_schedule(capture: str) -> None:
    given = {"capture": capture, "schedule": {"every_seconds": 5}}
    assert parse_request({**GOOD, "capture": capture}).capture == capture
    for body in ({**GOOD, **given}, {**GOOD, "tables": {"public.a": given}}):
        with pytest.raises(InvalidRequest, match="has no syncs"):
            parse_request(body)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
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
        ({**GOOD, "tables": {"a": {"record_key": []}}}, "/tables/a/record_key"),
        ({**GOOD, "tables": {"a": {"record_key": ["a", 1]}}}, "/tables/a/record_key/1"),
        ({**GOOD, "tables": {"a": {"cursor": 1}}}, "/tables/a/cursor"),
        ({**GOOD, "tables": {"a": {"capture": "guess"}}}, "/tables/a/capture"),
        ({**GOOD, "tables": {"a": {"updates": "some"}}}, "/tables/a/updates"),
        ({**GOOD, "tables": {"a": 1}}, "/tables/a"),
        ({**GOOD, "defaults": {"buckets": 0}}, "/defaults/buckets"),
        ({**GOOD, "defaults": {"record_key": ["id"]}}, "/defaults/record_key"),
        ({**GOOD, "target_database": ""}, "/target_database"),
        ({**GOOD, "target_database": " "}, "/target_database"),
    ],
)
def test_mistakes_have_pointers(body, pointer) -> None:
    with pytest.raises((InvalidRequest, ValidationError)) as caught:
        parse_request(body)
    problem: Any = problem_of(caught.value)[0]
    assert problem["errors"][0]["pointer"] == pointer
    assert problem["status"] == 400


def test_a_request_is_an_object() -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        parse_request([])


def test_patterns_with_a_star_within_are_bounded() -> None:
    many = [f"db{n}.*" for n in range(5_000)]
    wild = [f"db.t{n}_*" for n in range(MOST_WILD)]
    assert len(parse_request({**GOOD, "include": many + wild}).include) == 5_100
    for more in ({"include": [*wild, "*x"]}, {"include": wild, "exclude": ["*x"]}):
        with pytest.raises(InvalidRequest, match=f"at most {MOST_WILD}"):
            parse_request({**GOOD, **more})
    with pytest.raises(InvalidRequest, match="500 characters"):
        parse_request({**GOOD, "include": ["a*" * LONGEST_WILD]})


def test_mistakes_are_named_up_to_a_number() -> None:
    with pytest.raises(ValidationError) as refused:
        parse_request({**GOOD, "include": [{}] * 100_000})
    body, _ = problem_of(refused.value)
    assert len(cast("list[Any]", body["errors"])) == MOST_ERRORS
    with pytest.raises(InvalidRequest) as unknown:
        parse_request({f"x{n}": 0 for n in range(90_000)})
    assert len(cast("list[Any]", unknown.value.facts["errors"])) == MOST_ERRORS
