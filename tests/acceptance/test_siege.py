"""Who attacks the gateway stops nobody else; `make siege` does it for an hour."""

from __future__ import annotations

import pytest

from tests.product import Product
from tests.siege.attackers import ACTS, Siege
from tests.siege.friends import ask_for
from tests.siege.target import target_at

SECONDS = 10

# thrift's client forgets its socket when opening fails or the peer hangs up
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


def test_attackers_stop_nobody_else(product: Product) -> None:
    target = target_at(product)
    assert not ask_for(target, 2, 1).errors
    with Siege(target) as siege:
        under = ask_for(target, 4, SECONDS)
    assert under.errors == []
    assert len(under.seconds) > 4
    assert set(siege.acts) == {act.__name__ for act in ACTS}
    assert not ask_for(target, 2, 1).errors
