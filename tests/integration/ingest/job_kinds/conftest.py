"""Both dummy kinds are known to each test here, unless it takes one off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _dummies() -> Iterator[None]:
    from tests.integration.ingest.job_kinds.dummy_kinds import registered

    with registered():
        yield


@pytest.fixture
def table(world: Any) -> Any:
    """A world with a table that is live."""
    world.onboard("orders")
    world.until_live("orders")
    return world
