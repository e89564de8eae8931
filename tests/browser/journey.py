"""The main job as a person does it, in a browser, on the real product."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.product import Product
from tests.waiting import LIMIT_SECONDS, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The first load starts a driver, the first statement an engine. Milliseconds.
SLOW = LIMIT_SECONDS * 1000
Keep = Callable[["Page", str], None]

TABLES = """
CREATE TABLE people (
    id bigint PRIMARY KEY, name text NOT NULL, "订单 号" text,
    updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO people
SELECT n, 'person ' || n, 'no ' || n FROM generate_series(1, 30000) AS n;
CREATE TABLE notes (note text, updated_at timestamptz DEFAULT now());
INSERT INTO notes SELECT 'note ' || n FROM generate_series(1, 50) AS n;
CREATE TABLE "Odd Name" (id int PRIMARY KEY, updated_at timestamptz DEFAULT now());
ANALYZE;
"""


def make_source(product: Product, name: str) -> None:
    with product.source() as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
    with product.source(name) as source:
        source.execute(TABLES)


def log_in(page: Page, product: Product) -> None:
    page.goto(product.connection["web_url"])
    page.wait_for_selector("h1:has-text('Log in')")
    page.fill("#username", product.connection["username"])
    page.fill("#password", "wrong " + product.connection["password"])
    page.keyboard.press("Enter")
    page.wait_for_selector("text=is not right")
    page.fill("#password", product.connection["password"])
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Home')")


def add_source(page: Page, product: Product, name: str, keep: Keep) -> None:
    demo = product.connection["demo_source"]
    page.click("nav >> text=Sources")
    page.click("text=Add a source")
    page.fill("#id_name", name)
    page.fill("#id_host", str(demo["host"]))
    page.fill("#id_port", str(demo["port"]))
    page.fill("#id_database", name)
    page.fill("#id_username", demo["username"])
    page.fill("#id_password", "wrong")
    page.click("text=Test and save")
    page.wait_for_selector("text=refused the login", timeout=SLOW)
    keep(page, "journey-1-test-failed")
    page.fill("#id_password", demo["password"])
    page.click("text=Test and save")
    page.wait_for_selector(f"h1:has-text('Add tables of {name}')", timeout=SLOW)
    page.wait_for_selector("#pick-list >> text=people", timeout=SLOW)
    keep(page, "journey-2-discovered")


def onboard(page: Page, keep: Keep) -> None:
    page.fill("#id_every_seconds", "5")
    page.fill("#pick-q", "peo")
    page.wait_for_selector("#pick-list:not(:has-text('notes'))")
    page.check("#pick-list input[data-table='public.people']")
    page.fill("#pick-q", "")
    page.wait_for_selector("#pick-list:has-text('notes')")
    page.check("#pick-list input[data-table='public.notes']")
    assert page.inner_text("#picked-count") == "2"
    keep(page, "journey-4-picked")
    page.click("text=Show the plan")
    page.wait_for_selector("h1:has-text('Plan')")
    page.wait_for_selector("text=1 table needs a choice")
    page.click("summary:has-text('people')")
    page.wait_for_selector("text=the primary key of the source table")
    keep(page, "journey-5-plan")
    page.click("text=Approve 1 table")


def watch(page: Page, keep: Keep) -> None:
    """The page moves by itself from waiting over loading to live."""
    seen = set()

    def is_live() -> bool:
        states = page.locator("#overview [data-state]").evaluate_all(
            "all => all.map((e) => e.dataset.state)"
        )
        seen.update(states)
        page.wait_for_timeout(300)
        return "LIVE" in states

    wait_for(is_live, lambda: f"LIVE: {seen}", pause=0)
    keep(page, "journey-6-live")
    assert len(seen - {"LIVE", "PROPOSED"}) > 0, seen


def look_at_table(page: Page, name: str, keep: Keep) -> None:
    page.click("nav >> text=Tables")
    page.fill("#filter-q", f"{name}.peo")
    page.wait_for_url("**q=*")
    page.click(f"#table-list th[title='{name}.people'] a")
    page.wait_for_selector("#table-state [data-state=LIVE]")
    page.click(".page-tabs >> text=Activity")
    page.wait_for_selector("#commits td")
    page.click(".page-tabs >> text=Data")
    page.wait_for_selector("#sample td:has-text('person ')", timeout=SLOW)
    keep(page, "journey-7-table")


def query(page: Page, name: str, keep: Keep) -> None:
    page.click("main >> text=Query")
    # before its script is there, the plain field knows no keys
    page.wait_for_selector(".cm-content")
    assert f"{name}.people" in page.input_value("#sql")
    page.fill("#sql", f"SELECT count(*) AS people FROM {name}.people")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#statement [data-state=FINISHED]", timeout=SLOW)
    assert page.inner_text("#statement td").replace(",", "") == "30000"
    keep(page, "journey-8-result")
    page.fill("#sql", f"SELECT nope FROM {name}.people")
    page.click("#run")
    page.wait_for_selector("#statement [data-state=ERROR]", timeout=SLOW)
    keep(page, "journey-9-error")


def cancel(page: Page, name: str, keep: Keep) -> None:
    """A statement that would run for hours ends within seconds, in the engine too."""
    page.fill(
        "#sql",
        f"SELECT sum(hash(a.name, b.name, c.id)) FROM {name}.people a "
        f"CROSS JOIN {name}.people b CROSS JOIN {name}.people c",
    )
    page.click("#run")
    page.wait_for_selector("#statement [data-state=RUNNING]", timeout=SLOW)
    page.wait_for_timeout(2_000)
    keep(page, "journey-10-running")
    page.click("#statement-cancel")
    page.wait_for_selector("#statement [data-state=CANCELED]", timeout=SLOW)
    keep(page, "journey-11-cancelled")
    page.fill("#sql", "SELECT 40 + 2 AS answer")
    page.click("#run")
    page.wait_for_selector("#statement td:has-text('42')", timeout=SLOW)


def walk(page: Page, product: Product, name: str, keep: Keep) -> None:
    make_source(product, name)
    log_in(page, product)
    add_source(page, product, name, keep)
    onboard(page, keep)
    watch(page, keep)
    look_at_table(page, name, keep)
    query(page, name, keep)
    cancel(page, name, keep)
