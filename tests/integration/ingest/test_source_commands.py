"""What is asked of all tables of a source at once."""

from __future__ import annotations

import pytest

from catalog.access import grants
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db


def test_failed_tables_of_a_source_go_on_by_one_action(world, admin, ann) -> None:
    names = ("orders", "people", "items")
    world.fail_with("snapshot", Fault.INVALID_REQUEST, Fault.INVALID_REQUEST)
    world.onboard(*names)
    world.until(lambda: [world.pipeline(n).state for n in names].count("FAILED") == 2)
    failed = [n for n in names if world.pipeline(n).state == "FAILED"]
    assert ann("POST", "datasources/shop:resume").status_code == 404
    grants.grant(principal="user:ann", privilege="operate", on="shop", by="t")
    # of the source alone: which lake tables there are is not theirs to know
    answer = ann("POST", "datasources/shop:resume")
    assert answer.json() == {"resumed": 0, "left": 0}
    answer = admin("POST", "datasources/shop:resume")
    assert (answer.status_code, answer.json()) == (200, {"resumed": 2, "left": 0})
    assert all(world.pipeline(n).state == "SNAPSHOTTING" for n in failed)
    world.until_live(*names)
    assert admin("POST", "datasources/shop:resume").json() == {"resumed": 0, "left": 0}
