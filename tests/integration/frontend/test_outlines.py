"""Every page and part of a page has what screen readers and keyboards need."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from ingest.actions.registry import ACTIONS
from tests.integration.frontend.outline import faults, title_of
from tests.integration.frontend.test_pages import PAGES

SAME = {
    "sql-saved",
    "sql-history",
}  # without htmx they answer with the page around them
# what a form answers when nothing, or nonsense, was filled in
FORMS = {
    "/sources/new": {"kind": "postgresql", "name": "Not Good", "then": "save"},
    "/sources/shop/edit": {"host": "", "then": "save"},
    "/sources/shop/onboard": {"capture": "timestamp", "when": "every"},
    "/sources/shop/policy": {"when": "cron", "cron": "nonsense", "quiet_from": "25"},
    "/preferences": {"language": "xx", "timezone": "Nowhere"},
    "/tokens": {"name": ""},
    "/users": {"username": ""},
    "/users/ann": {"password": "1"},
    "/grants": {"to": "nobody", "on": "nowhere"},
    "/rules": {"what": "redact", "on": "nowhere", "applies_to": ""},
    "/alert-targets": {"name": ""},
}


def test_every_page(world, browse, redis_url):
    client, titles = browse("root"), dict[str, str]()
    for name, (make, *_) in PAGES.items():
        url = reverse(f"frontend:{name}", args=make(world))
        page = client.get(url).content.decode()
        assert faults(page) == [], url
        if "<html" in page and name not in SAME:
            assert titles.setdefault(title_of(page), url) == url, "a title twice"


def test_tables_and_jobs_in_every_state(world, browse, redis_url):
    client = browse("root")
    pages = [f"/jobs/{job.pk}" for job in world.jobs.values()]
    for table in world.lake_tables.values():
        pages += [f"/tables/{table.pk}{part}" for part in ("", "/health", "/policy")]
    pages += [f"/tables/{table.pk}" for table in world.source_tables.values()]
    pages += [f"/sources/new?kind={kind}" for kind in ("mysql", "mariadb")]
    pages += ["/alerts?state=all", "/tables?q=zzzz", "/nothing/here"]
    for page in pages:
        assert faults(client.get(page).content.decode()) == [], page


def test_previews_of_actions(world, browse, redis_url):
    client, table = browse("root"), world.lake_tables["orders"]
    for name in sorted(ACTIONS):
        page = client.get(f"/tables/{table.pk}/{name}")
        assert faults(page.content.decode()) == [], name


def test_errors_are_bound_to_their_fields(world, browse, redis_url):
    client = browse("root")
    for path, sent in FORMS.items():
        page = client.post(path, sent).content.decode()
        assert 'aria-invalid="true"' in page or 'role="alert"' in page, path
        assert faults(page) == [], path


def test_a_refused_login(db):
    page = Client().post("/login", {"username": "ann", "password": "wrong"})
    assert faults(page.content.decode()) == []
