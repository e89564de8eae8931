"""What is asked of all tables of a source at once."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.access import grants
from catalog.access.policy import Principal
from ingest.pipelines import source_commands
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db


def test_failed_tables_of_a_source_go_on_by_one_action(
    world, admin, ann, monkeypatch
) -> None:
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
    # at most so many at once, for all of them can be one transaction
    monkeypatch.setattr(source_commands, "MOST_AT_ONCE", 1)
    for resumed, left in ((1, 1), (1, 0)):
        answer = admin("POST", "datasources/shop:resume")
        assert answer.status_code == 200
        assert answer.json() == {"resumed": resumed, "left": left}
    assert all(world.pipeline(n).state == "SNAPSHOTTING" for n in failed)
    world.until_live(*names)
    assert admin("POST", "datasources/shop:resume").json() == {"resumed": 0, "left": 0}


def test_who_may_resume_which_tables_is_one_question(world, ann) -> None:
    """Each cost two statements."""
    names = ("orders", "people", "items")
    world.fail_with("snapshot", *[Fault.INVALID_REQUEST] * 3)
    world.onboard(*names)
    world.until(lambda: all(world.pipeline(n).state == "FAILED" for n in names))
    asked = []
    for name in names[:2]:
        on = f"lake.{world.lake(name).database.name}.{name}"
        grants.grant(principal="user:ann", privilege="operate", on=on, by="t")
        with CaptureQueriesContext(connection) as seen:
            found = source_commands.failed_tables(
                Principal("ann"), world.source
            ).order_by("id")
            asked.append(([table.name for table in found], len(seen)))
    assert [names for names, _ in asked] == [["orders"], ["orders", "people"]]
    assert asked[0][1] == asked[1][1]
