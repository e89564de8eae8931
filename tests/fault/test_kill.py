"""One seeded kill per victim; the campaign (`make fault`) runs many seeds."""

from __future__ import annotations

import pytest

from tests.fault import nemesis
from tests.product import Product

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("victim", nemesis.VICTIMS)
def test_a_kill_loses_nothing(product: Product, victim: str) -> None:
    nemesis.run(product, victim, seed=20260101)
