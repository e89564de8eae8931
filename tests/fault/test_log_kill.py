"""One seeded run of log capture per victim; the campaign (`make fault`) runs many.

Every run kills a follower, and a driver with its session; the others are long tests.
"""

from __future__ import annotations

import pytest

from tests.fault import log_nemesis
from tests.product import Product

USUAL = {"follower", "driver"}


@pytest.fixture(scope="module")
def followed(product: Product) -> Product:
    log_nemesis.prepare(product)
    return product


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(one, marks=[] if one in USUAL else [pytest.mark.long])
        for one in log_nemesis.VICTIMS
    ],
)
def test_a_kill_loses_no_change_of_a_log(followed: Product, victim: str) -> None:
    log_nemesis.run(followed, victim, seed=20261126)
