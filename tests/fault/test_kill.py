"""One seeded kill per victim; the campaign (`make fault`) runs many seeds.

Every run kills a driver; the other victims are long tests.
"""

from __future__ import annotations

import pytest

from tests.fault import nemesis
from tests.product import Product


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(one, marks=[] if one == "driver" else [pytest.mark.long])
        for one in nemesis.VICTIMS
    ],
)
def test_a_kill_loses_nothing(product: Product, victim: str) -> None:
    nemesis.run(product, victim, seed=20260101)
