"""What the OpenAPI document says of ingestion's replies is what they have."""

from __future__ import annotations

import pytest

from ingest.api import replies
from ingest.pipelines import sampling
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.world import make_tables

pytestmark = pytest.mark.django_db


def test_documented_replies_have_the_members_of_real_ones(
    world, admin, monkeypatch
) -> None:
    # the tables of this world have no files: rows come as if through the gateway
    monkeypatch.setattr(sampling.registered, "query", lambda user, sql, limit: [])
    make_tables(world.source, ["orders", "people"])
    body = {"datasource": "shop", "include": ["public.orders"]}
    dry = admin("POST", "onboardings", {**body, "dry_run": True})
    made = admin("POST", "onboardings", body)
    one = f"onboardings/{made.json()['id']}"
    approved = admin("POST", f"{one}:approve")
    world.until_live("orders")
    table = f"tables/{world.lake('orders').pk}"
    job = f"jobs/{world.jobs('snapshot')[0].pk}"
    removal = {"data": "drop", "dry_run": True}
    real = {
        replies.Draft: dry,
        replies.OnboardingDetail: approved,
        replies.JobDetail: admin("GET", job),
        replies.LogPage: admin("GET", f"{job}/logs"),
        replies.CommitPage: admin("GET", f"{table}/commits"),
        replies.Sample: admin("GET", f"{table}/sample"),
        replies.TablePolicy: admin("GET", f"{table}/policy"),
        replies.LevelPolicy: admin("GET", "datasources/shop/policy"),
        replies.Removal: admin("POST", f"{table}:remove", removal),
        replies.SyncingJob: admin("POST", f"{table}:sync"),
        replies.TableSwitched: admin("POST", f"{table}:pause"),
    }
    for serializer, reply in real.items():
        assert reply.status_code < 300, (serializer, reply.content)
        compare(serializer(), reply.json())
    compare(replies.Onboarding(), admin("GET", "onboardings").json()["items"][0])
