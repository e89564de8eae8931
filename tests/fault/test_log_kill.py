"""One seeded run of log capture per kind of source and victim; the campaign (`make
fault`) runs many, over both kinds at once.

Every run kills a driver with its session; the others are long tests. A killed follower
goes on in `tests/integration/ingest/test_followers.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault import log_nemesis
from tests.product import Product

# the product that all tests share has its chains on the disk that it has
VICTIMS = [one for one in log_nemesis.VICTIMS if one != "full_disk"]
USUAL = {("postgresql", "driver")}


@pytest.fixture(scope="module")
def postgresql(product: Product) -> Iterator[log_nemesis.World]:
    with log_nemesis.world(product, "postgresql") as made:
        yield made


@pytest.fixture(scope="module")
def mariadb(product: Product) -> Iterator[log_nemesis.World]:
    with log_nemesis.world(product, "mariadb") as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "victim"),
    [
        pytest.param(*one, marks=[] if one in USUAL else [pytest.mark.long])
        for kind in log_nemesis.KINDS
        for one in ((kind, victim) for victim in VICTIMS)
    ],
)
def test_a_kill_loses_no_change_of_a_log(
    product: Product, request: pytest.FixtureRequest, kind: str, victim: str
) -> None:
    log_nemesis.run(request.getfixturevalue(kind), victim, seed=20261126)
