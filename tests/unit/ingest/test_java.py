"""What the JVMs of jobs are started with."""

from __future__ import annotations

from ingest.contract.java import BROADCAST_MB, PAGE_MB, REGION_MB


def test_buffers_of_spark_are_no_large_objects_of_the_collector() -> None:
    assert max(PAGE_MB, BROADCAST_MB) * 2 < REGION_MB
