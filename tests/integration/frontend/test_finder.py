"""The search at the top: everything one may go to, and nothing one may not see."""

from __future__ import annotations

from urllib.parse import quote

from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import SavedQuery
from core.models import Job
from tests.integration.frontend.reading import html_of


def found(client, q: str) -> str:
    return html_of(client.get(f"/find?q={quote(q)}"))


def test_tables_columns_sources_queries_jobs_people_pages_and_actions(
    world, browse
) -> None:
    root, ann = User.objects.get(username="root"), User.objects.get(username="ann")
    job = Job.objects.first()
    for owner, name, is_shared in ((root, "orders by day", False), (ann, "his", False)):
        SavedQuery.objects.create(owner=owner, name=name, sql="S", is_shared=is_shared)
    client, orders = browse("root"), world.lake_tables["orders"].pk
    said = found(client, "orders")
    assert f'href="/tables/{orders}"' in said
    assert "shop.public.orders" in said, "at its source, too"
    assert "orders by day" in said
    assert "column: amount" in found(client, "amount")
    assert "his</span>" not in found(client, "his"), "others' are theirs"
    assert f'href="/tables/{orders}/pause"' in found(client, "pause orders")
    assert f'href="/tables/{orders}/pause"' in found(client, "pau  ord")
    assert 'href="/sources/shop"' in found(client, "sho")
    assert 'href="/users/ann"' in found(client, "ann")
    assert f'href="/jobs/{job.pk}"' in found(client, str(job.pk))
    assert f'href="/jobs/{job.pk}"' in found(client, str(job.pk)[:8])
    assert 'href="/audit"' in found(client, "Audi")
    assert "Nothing found" in found(client, "zzzzzz")
    empty = found(client, "")
    assert 'href="/health"' in empty
    assert "/tables/" not in empty


def test_what_one_may_not_see_is_not_found(world, browse) -> None:
    client = browse("ann")
    hidden = world.lake_tables["legacy"].pk
    assert f'"/tables/{hidden}"' not in found(client, "legacy")
    assert f'"/tables/{hidden}/' not in found(client, "pause legacy")
    assert "Users" not in found(client, "ann")
    assert "/audit" not in found(client, "audit")
    eve = browse("eve")
    assert "/tables/" not in found(eve, "orders")
    assert "/sources/shop" not in found(eve, "shop")


def test_it_takes_few_statements(world, browse) -> None:
    client = browse("root")
    found(client, "orders")
    for q in ("orders", "pause orders", "o"):
        with CaptureQueriesContext(connection) as asked:
            found(client, q)
        assert len(asked) <= 16, (q, [one["sql"][:80] for one in asked])
