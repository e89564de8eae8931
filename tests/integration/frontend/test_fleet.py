"""All tables by their health: bands, what is wrong, pages; quick when there are many."""

from __future__ import annotations

import html
import re

import pytest
from django.db import connection

from ingest.models import TableHealth
from tests.integration.frontend.page_cost import FEW_BLOCKS, cost_of, settle_statistics

pytestmark = pytest.mark.django_db

# five thousand tables with scores from 0 to 100 and unseen ones, most of them ill
MANY = """
INSERT INTO catalog_table SELECT (jsonb_populate_record(t, jsonb_build_object(
  'id', 1000000 + n, 'name', 'many' || n, 'path', 'p' || n))).*
FROM catalog_table t, generate_series(1, 5000) n WHERE t.id = %(like)s;
INSERT INTO ingest_tablehealth SELECT (jsonb_populate_record(h, jsonb_build_object(
  'id', 1000000 + n, 'table_id', 1000000 + n,
  'score', CASE WHEN n %% 102 = 101 THEN NULL ELSE n %% 102 END,
  'issues', CASE WHEN n %% 102 > 70 THEN '[]' ELSE h.issues END))).*
FROM ingest_tablehealth h, generate_series(1, 5000) n WHERE h.table_id = %(like)s
"""
NAMES = re.compile(r'/tables/\d+/health">([^<]+)</a>')


def names_of(client, query: str = "") -> list[str]:
    text = client.get(f"/health{query}").content.decode()
    return [html.unescape(name) for name in NAMES.findall(text)]


def test_the_worst_first_by_band_reason_and_name(world, browse):
    client = browse("root")
    TableHealth.objects.create(table=world.lake_tables["legacy"])
    assert names_of(client) == ["orders", "events", "legacy"]
    for query, expected in {
        "?band=bad": ["orders"],
        "?band=fair": [],
        "?band=good": ["events"],
        "?band=unseen": ["legacy"],
        "?band=nonsense": ["orders", "events", "legacy"],
        "?code=bucket_conflict": ["orders"],
        "?code=small_files": [],
        "?band=good&code=bucket_conflict": [],
        "?q=EVEN": ["events"],
        "?q=shop.even": ["events"],
        "?q=other.even": [],
    }.items():
        assert names_of(client, query) == expected, query
    text = client.get("/health").content.decode()
    assert "and 6 more" in text
    assert names_of(browse("ann")) == ["orders"]
    assert names_of(browse("eve")) == []


def test_thousands_of_tables_cost_little_and_every_one_is_on_one_page(world, browse):
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"like": world.lake_tables["orders"].pk})
    settle_statistics()
    client = browse("root")
    for path in ("/health", "/health?band=fair", "/health?code=many_logs&q=many"):
        cost = cost_of(client, path)
        assert cost.statements <= 7, (path, cost)
        assert cost.blocks <= FEW_BLOCKS, (path, cost)
        assert cost.size <= 100_000, (path, cost)
    seen, path = [], "/health?band=unseen"
    while path:
        text = client.get(path).content.decode()
        seen += NAMES.findall(text)
        following = re.search(r'rel="next" href="([^"]+)"', text)
        path = f"/health{html.unescape(following[1])}" if following else ""
    assert len(seen) == len(set(seen)) == 49
    first = names_of(client)
    text = client.get("/health").content.decode()
    following = re.search(r'rel="next" href="([^"]+)"', text)
    assert following is not None
    second = client.get(f"/health{html.unescape(following[1])}").content.decode()
    assert not set(first) & set(NAMES.findall(second))
    back = re.search(r'rel="prev" href="([^"]+)"', second)
    assert back is not None
    assert names_of(client, html.unescape(back[1])) == first
