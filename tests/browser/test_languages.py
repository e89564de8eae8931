"""Pages in Simplified Chinese, by the browser and by the user's setting, and in a zone."""

from __future__ import annotations

import os

import pytest

from tests.browser.test_look import NARROW, SIDEWAYS, WIDE, paths
from tests.integration.frontend.world import PASSWORD, build

# Playwright keeps an event loop on this thread; Django's checks would refuse the ORM.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

pytestmark = pytest.mark.django_db(transaction=True)


def log_in(page, live_server):
    page.goto(f"{live_server.url}/login")
    page.fill("#username", "root")
    page.fill("#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("#home-live")


def test_every_page_in_chinese_by_the_browser(
    live_server, settings, redis_url, open_page, keep
):
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    world = build()
    page = open_page(width=WIDE, locale="zh-CN")
    log_in(page, live_server)
    for name, path in paths(world).items():
        page.goto(live_server.url + path)
        assert page.evaluate("document.documentElement.lang") == "zh-hans"
        for width in (WIDE, NARROW):
            page.set_viewport_size({"width": width, "height": 860})
            keep(page, f"zh{'' if width == WIDE else '-narrow'}-{name}")
            assert page.evaluate(SIDEWAYS) <= 0, (name, width)
        page.set_viewport_size({"width": WIDE, "height": 860})


def test_the_language_is_switched_by_keyboard_and_the_zone_by_setting(
    live_server, settings, redis_url, open_page
):
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    world = build()
    page = open_page(zone="Asia/Tokyo")
    log_in(page, live_server)
    job = f"{live_server.url}/jobs/{world.jobs['failed'].pk}"
    page.goto(job)
    assert page.locator(".foot").inner_text().startswith("Times are in Asia/Tokyo")
    time = page.locator("dl.facts time").first
    in_tokyo, utc = time.inner_text(), time.get_attribute("title")
    page.locator(".foot button[value=zh-hans]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("html[lang=zh-hans]")
    assert page.url == job
    page.goto(f"{live_server.url}/preferences")
    page.select_option("#id_timezone", "Asia/Kathmandu")
    page.locator("main form .is-primary").click()
    page.wait_for_selector("text=偏好设置已保存。")
    page.goto(job)
    time = page.locator("dl.facts time").first
    assert time.get_attribute("title") == utc
    assert time.inner_text() != in_tokyo


def test_a_tab_that_nobody_named_is_called_in_the_language_of_the_page(
    live_server, settings, redis_url, open_page
):
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    build()
    page = open_page()
    log_in(page, live_server)
    page.goto(f"{live_server.url}/sql")
    page.click(".tab-new")
    assert page.inner_text(".tab.is-current").startswith("Query 2")
    page.click(".foot button[value=zh-hans]")
    page.wait_for_selector("html[lang=zh-hans]")
    page.wait_for_selector(".tab >> nth=1")
    assert page.inner_text(".tab.is-current").startswith("查询 2")
