"""What is wrong with a table is found on its health page and repaired from there: a lost
plan, rows that are there twice, a compaction that stands still; then another number of
buckets. One table for all."""

from __future__ import annotations

import itertools
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.outsider import Outsider
from tests.browser.journey import SLOW, Keep
from tests.product import Product
from tests.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page
MORE = pytest.mark.long(together="repairs in a browser")

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


def compactions(product: Product, table: Any) -> list[Any]:
    """Those that wait, beside what a sync may be writing just now."""
    found = health(product, table)["pending"]
    return [one for one in found if one["action"] == "compaction"]


def make_a_plan(product: Product, table: Any) -> str:
    """Changes until a compaction is planned; its instant."""
    turn = itertools.count()

    def planned() -> Any:
        # not the same rows at once: capture takes a row when it has come to rest
        change = "UPDATE beds SET v = v || '.', updated_at = now() WHERE id %% 99 = %s"
        with product.source("ward") as source:
            source.execute(change, [next(turn) % 99])
        return compactions(product, table)

    return str(wait_for(planned, "a planned compaction")[0]["instant"])


def outsider_of(product: Product, table: Any) -> Outsider:
    lake = Path(product.connection["lake"].removeprefix("file://"))
    return Outsider(lake, lake / "ward" / "beds", table["id"])


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
    instant = outsider_of(product, beds).leave_begun(asked)
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


def open_health(page: Page, product: Product, table: Any) -> None:
    log_in(page, product)
    page.goto(f"{product.connection['web_url']}/tables/{table['id']}/health")


def copy_a_file_group(product: Product, table: Any) -> None:
    """As tasks of a load that ran twice leave it: a bucket's rows in two file groups."""
    listed = product.api.get(f"/tables/{table['id']}/files")["items"]
    name = next(one["base_file"] for one in listed if one["base_file"])
    lake = Path(product.connection["lake"].removeprefix("file://"))
    (base,) = (lake / "ward" / "beds").glob(name)
    file_id, _, rest = name.partition("_")
    shutil.copy(base, base.with_name(f"{file_id[:9]}{'f' * 8}{file_id[17:]}_{rest}"))


@MORE
def test_rows_that_are_there_twice_are_removed(
    product: Product, beds: Any, open_page: Any, keep: Keep
) -> None:
    copy_a_file_group(product, beds)
    page = open_page()
    open_health(page, product, beds)
    page.click("#action-duplicates")
    ask(page, keep, "repairs-5-look")
    page.wait_for_selector("main a:has-text('Remove duplicates')")
    keep(page, "repairs-6-found")
    page.goto(f"{product.connection['web_url']}/tables/{beds['id']}/health")
    await_words(page, "Rows may be duplicated")
    keep(page, "repairs-7-twice")
    page.click("main a:has-text('Remove duplicates')")
    ask(page, keep, "repairs-8-preview", confirm="beds")
    keep(page, "repairs-9-done")
    with product.source("ward") as source:
        source.execute("UPDATE beds SET v = 'moved', updated_at = now() WHERE id = 7")
    await_equal(product)


@MORE
def test_another_number_of_buckets_is_previewed_and_made(
    product: Product, beds: Any, open_page: Any, keep: Keep
) -> None:
    before = health(product, beds)["facts"]["buckets"]
    page = open_page()
    open_health(page, product, beds)
    page.click("#action-resize")
    page.fill("#buckets", str(before + 1))
    page.click("#look")
    page.wait_for_selector(f"text={before + 1} buckets instead of {before}")
    ask(page, keep, "repairs-10-resize")
    keep(page, "repairs-11-resized")
    assert "The table before and after" in page.content()
    await_equal(product)
    found = product.api.get(f"/tables/{beds['id']}/files")["items"]
    assert {one["bucket"] for one in found} == set(range(before + 1))


@MORE
def test_a_compaction_that_stands_still_is_rolled_back(
    product: Product, beds: Any, open_page: Any, keep: Keep
) -> None:
    address = f"/tables/{beds['id']}/policy"
    reply = product.api.call("PATCH", address, {"stuck_after_seconds": 60})
    assert reply.status == 200, reply.body
    instant = make_a_plan(product, beds)
    half = outsider_of(product, beds).half_compact()
    assert half == instant
    page = open_page()
    open_health(page, product, beds)
    await_words(page, "A compaction started and never finished")
    keep(page, "repairs-12-stuck")
    page.click("main a:has-text('Roll back')")
    ask(page, keep, "repairs-13-preview")
    keep(page, "repairs-14-rolled-back")
    # the plan is still there, for the night
    (left,) = compactions(product, beds)
    assert (left["instant"], left["state"]) == (instant, "REQUESTED")
    await_equal(product)
