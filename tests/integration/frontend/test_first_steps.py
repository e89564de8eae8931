"""Home shows a newcomer the way until it is walked."""

from __future__ import annotations

from django.utils import timezone

from catalog.access import audit
from catalog.models import ApiToken, Datasource, Table
from ingest.models import Onboarding, Pipeline


def ways(page) -> list[bool]:
    return [step.is_done for step in page.context["steps"]]


def test_an_empty_home_begins_with_a_source(world, browse):
    Pipeline.objects.all().delete()
    Onboarding.objects.all().delete()
    Table.objects.all().delete()
    Datasource.objects.exclude(kind="lake").delete()
    page = browse("root").get("/")
    assert "Add a source" in page.content.decode()
    assert ways(page)[:2] == [False, False]


def test_the_way_ends_when_it_is_walked(world, browse):
    client = browse("root")
    assert "/first-steps" in client.get("/").content.decode()
    page = client.get("/first-steps")
    assert ways(page) == [True, True, False, False, True]
    assert "/sql?table=" in page.content.decode()
    audit.record("statement.run", on="", actor="root", statement="SELECT 1")
    assert ways(client.get("/first-steps")) == [True, True, True, False, True]
    ApiToken.objects.create(
        user=world.admin, key_id="k", name="t", last_used_at=timezone.now()
    )
    done = client.get("/first-steps")
    assert done.context["steps"] == []
    assert "First steps" not in done.content.decode()


def test_others_see_no_way_that_they_cannot_walk(world, browse):
    assert "/first-steps" not in browse("ann").get("/").content.decode()
    assert browse("ann").get("/first-steps").context["steps"] == []
