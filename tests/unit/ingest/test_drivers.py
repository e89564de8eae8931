"""The size of a driver of a job's own, from what was asked to its command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import InvalidRequest
from ingest.contract.driver_size import arguments_for, megabytes, parse_driver, within
from ingest.contract.job import CompactWork, DriverSpec, JobSpec, spec_from
from ingest.contract.members import encode
from ingest.contract.table import FenceSpec, TableSpec
from ingest.driver.main import _parser

MOST = DriverSpec("4g", 4)
SHARED = ["--once", "--jars", "a.jar", "--master", "local[2]", "--memory", "1200m"]


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512), ("4g", 4096), ("4G", 4096), ("1200m", 1200)]
)
def test_sizes(text: str, size: int) -> None:
    assert megabytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "4", "0g", "4t", "-1g", "4 g", "1.5g", "9999999g"]
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="1200m or 4g"):
        megabytes(text)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, MOST),
        ({"memory": "1G"}, DriverSpec("1g", 4)),
        ({"cores": 1}, DriverSpec("4g", 1)),
        ({"memory": "4096m", "cores": 4}, DriverSpec("4096m", 4)),
    ],
)
def test_what_is_left_out_is_the_most_allowed(asked: Any, given: DriverSpec) -> None:
    assert parse_driver(asked, "", most=MOST) == given


@pytest.mark.parametrize("value", [[], "4g", {"heap": "4g"}, {"memory": "4g"}, {}])
def test_a_policy_names_both(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_driver(value, "/compact_driver", most=None)


def test_a_policy_beyond_the_limits_gets_the_limits() -> None:
    assert within(DriverSpec("64g", 2), MOST) == DriverSpec("4g", 2)
    assert within(DriverSpec("1g", 64), MOST) == DriverSpec("1g", 4)


def test_its_command_line_goes_above_the_shared_one() -> None:
    own = arguments_for(DriverSpec("4g", 3), is_cluster=False)
    options = _parser().parse_args([*SHARED, *own])
    assert (options.master, options.memory) == ("local[3]", "4g")
    conf = ["--conf", "spark.cores.max=2", "--conf", "spark.executor.memory=1g"]
    own = arguments_for(DriverSpec("4g", 3), is_cluster=True)
    options = _parser().parse_args([*SHARED, *conf, *own])
    assert (options.master, options.memory) == ("local[2]", "1200m")
    assert dict(pair.split("=") for pair in options.conf) == {
        "spark.cores.max": "3",
        "spark.executor.memory": "4g",
    }
    assert arguments_for(None, is_cluster=True) == []


def test_it_travels_with_the_job() -> None:
    table = TableSpec(1, "s", "t", "d", "t", "/l", "/s", (), ("id",))
    spec = JobSpec(
        *("j", 1, "compact", "maintenance", "/lake", table, FenceSpec("/f", 1)),
        compact=CompactWork(),
        driver=MOST,
    )
    data = json.loads(encode(spec))
    assert spec_from(data) == spec
    del data["driver"]
    assert spec_from(data).driver is None
