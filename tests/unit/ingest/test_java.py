"""What the JVMs of jobs are started with."""

from __future__ import annotations

from ingest.contract.java import (
    BROADCAST_MB,
    CODE_CACHE_MB,
    PAGE_MB,
    REGION_MB,
    driver_options,
)


def test_buffers_of_spark_are_no_large_objects_of_the_collector() -> None:
    assert max(PAGE_MB, BROADCAST_MB) * 2 < REGION_MB


def test_a_compiler_of_fewer_tiers_leaves_the_code_cache_as_large() -> None:
    """Options of the environment come first on a JVM's command line; the last counts."""
    assert f"-XX:ReservedCodeCacheSize={CODE_CACHE_MB}m" in driver_options("/scratch")
    assert CODE_CACHE_MB >= 240
