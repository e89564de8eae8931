"""Every page in Chromium, light and dark, wide and narrow: nothing breaks the content
security policy, nothing sticks out sideways, axe-core finds no breach of WCAG 2.2 AA."""

from __future__ import annotations

import os
from pathlib import Path

import axe_playwright_python
import pytest

from tests.integration.frontend.world import PASSWORD, build

# Playwright keeps an event loop on this thread; Django's checks would refuse the ORM.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

pytestmark = pytest.mark.django_db(transaction=True)

TABS = ("data", "columns", "activity", "access", "connect")
ADMIN = (
    *("users", "groups", "invitations", "grants", "audit", "sessions", "system"),
    *("alerts", "alert-targets"),
)
WIDE, NARROW = 1280, 390
# at the wide width, in pixels
HIGHEST = {"table-policy": 1200, "table-health": 2400}
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
EVERYTHING = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What colours and the width can change; the rest is the same page.
BY_LOOK = ["color-contrast", "target-size", "scrollable-region-focusable"]
BREACHES = """async (runOnly) => {
  const found = await axe.run(document, { runOnly, resultTypes: ["violations"] });
  return found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 160)}`);
}"""


def paths(world):
    orders = world.lake_tables["orders"].pk
    return {
        "home": "/",
        "sources": "/sources",
        "source": "/sources/shop",
        "source-new": "/sources/new",
        "source-edit": "/sources/shop/edit",
        "source-labels": "/sources/shop/labels",
        "source-delete": "/sources/shop/delete",
        "pipeline": "/sources/shop/pipeline",
        "pick": "/sources/shop/onboard",
        "plan": f"/onboardings/{world.proposed.pk}",
        "onboarding": f"/onboardings/{world.onboarding.pk}",
        "choose": f"/onboardings/{world.proposed.pk}/tables/"
        f"{world.proposed.tables.first().pk}",
        "many": f"/onboardings/{world.proposed.pk}/many?of=all",
        "discard": f"/onboardings/{world.proposed.pk}/discard",
        "source-policy": "/sources/shop/policy",
        "table-policy": f"/tables/{orders}/policy",
        "table-failed": f"/tables/{world.lake_tables['legacy'].pk}",
        "tables": "/tables",
        "table": f"/tables/{orders}",
        **{f"table-{tab}": f"/tables/{orders}/{tab}" for tab in TABS},
        "table-source": f"/tables/{world.source_tables['orders'].pk}",
        "health": "/health",
        "table-health": f"/tables/{orders}/health",
        "clean-bill": f"/tables/{world.lake_tables['events'].pk}/health",
        "nothing-found": "/tables?q=zzzz",
        "remove": f"/tables/{orders}/remove",
        "compact": f"/tables/{orders}/compact",
        "jobs": "/jobs",
        "job": f"/jobs/{world.jobs['running'].pk}",
        "job-failed": f"/jobs/{world.jobs['failed'].pk}",
        "sql": "/sql",
        "connect": "/connect",
        "tokens": "/tokens",
        "preferences": "/preferences",
        **{name: f"/{name}" for name in ADMIN},
        "user": "/users/ann",
        "group": "/groups/bi",
        "alert-target": "/alert-targets/pager",
        "alert-target-delete": "/alert-targets/pager/delete",
    }


SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize(
    "look", ["light", pytest.param("dark", marks=pytest.mark.long)]
)
def test_pages(live_server, settings, redis_url, open_page, keep, look):
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    world = build()
    page = open_page(width=WIDE, dark=look == "dark")
    page.goto(f"{live_server.url}/login")
    inspect(page, keep, look, "login")
    page.fill("#username", "root")
    page.fill("#password", PASSWORD)
    page.click("text=Log in >> nth=-1")
    page.wait_for_selector("h1:has-text('Home')")
    for name, path in paths(world).items():
        page.goto(live_server.url + path)
        if name == "table-activity":
            page.wait_for_selector("#commits .empty")
        if name == "plan":
            page.locator("summary").nth(1).click()
        inspect(page, keep, look, name)
        height = page.evaluate("document.querySelector('main').scrollHeight")
        assert height <= HIGHEST.get(name, height), (name, height)


def inspect(page, keep, look, name):
    """Wide and narrow; axe looks at one width per theme, so at both in all."""
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": 860})
        keep(page, f"{look}{'' if width == WIDE else '-narrow'}-{name}")
        assert page.evaluate(SIDEWAYS) <= 0, (name, width)
        if (width == WIDE) == (look == "light"):
            page.evaluate(AXE)
            wanted = EVERYTHING if look == "light" else BY_LOOK
            assert page.evaluate(BREACHES, wanted) == [], (name, width)
    page.set_viewport_size({"width": WIDE, "height": 860})


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


def test_on_a_phone_a_cell_is_called_by_its_own_column(
    live_server, settings, redis_url, open_page
):
    """Also behind one that spans several."""
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    build()
    page = open_page(width=NARROW)
    page.goto(f"{live_server.url}/login")
    page.fill("#username", "root")
    page.fill("#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Home')")
    page.goto(f"{live_server.url}/jobs?kind=events")
    granted = page.locator("tr:has-text('granted discover') td[data-label]")
    assert granted.nth(1).get_attribute("data-label") == "Started"
