"""What is wrong with a table is found on its health page and repaired from there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.journey import SLOW, Keep
from tests.product import Product
from tests.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

TABLE = """CREATE TABLE beds (id int PRIMARY KEY, v text,
  updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO beds SELECT n, 'made' FROM generate_series(1, 2000) n; ANALYZE;"""


@pytest.fixture(scope="module")
def beds(product: Product) -> Any:
    """A lake table whose compactions are planned, and wait for the night."""
    with product.source() as admin:
        admin.execute("CREATE DATABASE ward")
    with product.source("ward") as source:
        source.execute(TABLE)
    product.register("ward")
    product.discover("ward")
    product.api.post(
        "/onboardings",
        {
            "datasource": "ward",
            "include": ["public.beds"],
            "capture": "timestamp",
            "schedule": {"every_seconds": 2},
            "approve": True,
        },
    )
    table = product.api.wait_live("lake.ward.beds")
    later = datetime.now(UTC) + timedelta(hours=6)
    hours = {
        "from": f"{later:%H:%M}",
        "to": f"{later + timedelta(hours=1):%H:%M}",
        "timezone": "UTC",
    }
    policy = {"compact_after": 2, "maintenance_window": hours}
    # a plan, however little was changed
    policy |= {"max_write_amplification": 100_000}
    reply = product.api.call("PATCH", f"/tables/{table['id']}/policy", policy)
    assert reply.status == 200, reply.body
    return table


def health(product: Product, table: Any) -> Any:
    return product.api.get(f"/tables/{table['id']}/health?look=now")


def leave_begun(product: Product, asked: datetime) -> str:
    """What is left of a compaction that began at that moment, when its request is gone:
    half a base file. Its instant."""
    table = Path(product.connection["lake"].removeprefix("file://")) / "ward" / "beds"
    instant = f"{asked.astimezone(UTC):%Y%m%d%H%M%S%f}"[:17]
    begun = table / ".hoodie" / "timeline" / f"{instant}.compaction.inflight"
    begun.touch()
    base = max(table.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    file_id = base.name.partition("_")[0]
    half = base.read_bytes()[: base.stat().st_size // 2]
    base.with_name(f"{file_id}_0-77-77_{instant}.parquet").write_bytes(half)
    return instant


def log_in(page: Page, product: Product) -> None:
    page.goto(product.connection["web_url"])
    page.fill("#username", product.connection["username"])
    page.fill("#password", product.connection["password"])
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Home')")


def await_words(page: Page, words: str) -> None:
    """Health is looked at in the background: the page is opened until it says so."""

    def is_there() -> bool:
        page.reload()
        return words in page.inner_text("main")

    wait_for(is_there, f"the page to say: {words}")


def ask(page: Page, keep: Keep, name: str, *, confirm: str = "") -> None:
    """The preview, its button, and the job to its end."""
    page.wait_for_selector("text=What will happen")
    keep(page, name)
    if confirm:
        page.fill("#confirm", confirm)
    page.click("#go")
    page.wait_for_selector("[data-state=SUCCEEDED]", timeout=SLOW)


def rows_of(product: Product) -> tuple[list[Any], list[Any]]:
    statement = "SELECT id, v FROM {} ORDER BY id"
    with product.source("ward") as source:
        wanted = source.execute(statement.format("beds")).fetchall()
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(statement.format("lake.ward.beds"))
        return wanted, cursor.fetchall()


def test_a_lost_plan_is_found_and_taken_off(
    product: Product, beds: Any, open_page: Any, keep: Keep
) -> None:
    # one that is old enough to be nobody's work any more
    asked = datetime.now(UTC) - timedelta(minutes=2)
    instant = leave_begun(product, asked)
    health(product, beds)  # its next look by itself is minutes away
    page = open_page()
    log_in(page, product)
    page.click("nav >> text=Health")
    await_words(page, "beds")
    page.click("main a:has-text('beds')")
    await_words(page, "The table cannot be read or written")
    assert "100" not in page.inner_text(".score")
    keep(page, "repairs-1-broken")
    page.click("main a:has-text('Unschedule')")
    ask(page, keep, "repairs-2-preview")
    keep(page, "repairs-3-done")
    assert instant not in str(health(product, beds)["pending"])
    page.goto(f"{product.connection['web_url']}/tables/{beds['id']}/health")
    await_words(page, "No issues found")
    keep(page, "repairs-4-well")
    product.api.wait_live("lake.ward.beds")
    await_equal(product)


def await_equal(product: Product) -> None:
    def is_equal() -> bool:
        wanted, found = rows_of(product)
        return wanted == found

    wait_for(is_equal, "the lake to equal its source")
