"""Every page in Chromium, light and dark, wide and narrow: nothing breaks the
content security policy, nothing sticks out sideways, all controls have names."""

from __future__ import annotations

import os

import pytest

from tests.integration.frontend.world import PASSWORD, build

# Playwright keeps an event loop on this thread; Django's checks would refuse the ORM.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

pytestmark = pytest.mark.django_db(transaction=True)

LOOKS = [
    ("light", 1280, False),
    ("dark", 1280, True),
    ("narrow", 400, False),
]


def paths(world):
    orders = world.lake_tables["orders"].pk
    return {
        "home": "/",
        "sources": "/sources",
        "source": "/sources/shop",
        "source-new": "/sources/new",
        "pick": "/sources/shop/onboard",
        "plan": f"/onboardings/{world.proposed.pk}",
        "onboarding": f"/onboardings/{world.onboarding.pk}",
        "choose": f"/onboardings/{world.proposed.pk}/tables/"
        f"{world.proposed.tables.first().pk}",
        "tables": "/tables",
        "table": f"/tables/{orders}",
        "remove": f"/tables/{orders}/remove",
        "jobs": "/jobs",
        "job": f"/jobs/{world.jobs['running'].pk}",
        "job-failed": f"/jobs/{world.jobs['failed'].pk}",
        "sql": "/sql",
        "tokens": "/tokens",
        "users": "/users",
        "user": "/users/ann",
        "groups": "/groups",
        "grants": "/grants",
        "audit": "/audit",
        "system": "/system",
    }


SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
NAMELESS = """[...document.querySelectorAll('button, input:not([type=hidden]), select, textarea, a')]
  .filter((e) => !(e.textContent || '').trim() && !e.getAttribute('aria-label')
    && !(e.labels && e.labels.length) && !e.title)
  .map((e) => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize(
    ("look", "width", "dark"), LOOKS, ids=[one[0] for one in LOOKS]
)
def test_pages(live_server, settings, redis_url, open_page, keep, look, width, dark):
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    world = build()
    page = open_page(width=width, dark=dark)
    page.goto(f"{live_server.url}/login")
    keep(page, f"{look}-login")
    page.fill("#username", "root")
    page.fill("#password", PASSWORD)
    page.click("text=Log in >> nth=-1")
    page.wait_for_selector("h1:has-text('Home')")
    for name, path in paths(world).items():
        page.goto(live_server.url + path)
        if name == "table":
            page.wait_for_selector("#commits .empty")
        if name == "plan":
            page.locator("summary").nth(1).click()
        keep(page, f"{look}-{name}")
        assert page.evaluate(SIDEWAYS) <= 0, name
        assert page.evaluate(NAMELESS) == [], name


def test_keys_and_theme(live_server, settings, redis_url, open_page):
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    build()
    page = open_page()
    page.goto(f"{live_server.url}/login")
    page.fill("#username", "root")
    page.fill("#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Home')")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_selector("h1:has-text('Tables')")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("cust")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tables?q=cust*")
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    page.keyboard.press("Escape")
    page.click("[data-action=theme]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
