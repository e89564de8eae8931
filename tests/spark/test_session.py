"""The session that drivers and tests share."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest


@pytest.mark.parametrize("name", ["functions", "PythonUtils", "org.apache.spark.sql"])
def test_names_that_each_job_uses_are_asked_of_the_jvm_once(
    spark: Any, name: str
) -> None:
    found = attrgetter(name)
    assert found(spark.sparkContext._jvm) is found(spark.sparkContext._jvm)
