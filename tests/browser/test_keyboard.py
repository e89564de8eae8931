"""Pages without a mouse: what Tab reaches, where the focus stays, what is announced."""

from __future__ import annotations

import os

import pytest

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

pytestmark = pytest.mark.django_db(transaction=True)

FOCUSED = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  const box = e.getBoundingClientRect();
  return [e.textContent.trim() || e.getAttribute("aria-label") || e.name,
    style.outlineStyle, box.width > 0 && box.top >= 0];
}"""


def test_the_keyboard_reaches_everything_and_narrow_screens_have_a_menu(page):
    page.open("/tables")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)[0] == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.open("/tables")
    seen = []
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement !== document.body") and len(seen) < 60:
        name, outline, is_shown = page.evaluate(FOCUSED)
        assert outline != "none", name
        assert is_shown, name
        seen.append(name)
        page.keyboard.press("Tab")
    for wanted in ("Home", "Sources", "q", "Log out", "Filter", "orders"):
        assert wanted in seen, (wanted, seen)
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    for _ in range(4):
        page.keyboard.press("Tab")
        inside = "document.activeElement === document.body || keys.contains(document.activeElement)"
        assert page.evaluate(inside)
    page.keyboard.press("Escape")
    assert page.locator("#keys[open]").count() == 0
    page.set_viewport_size({"width": 390, "height": 800})
    page.open("/")
    assert not page.is_visible("#nav")
    page.click("text=Menu")
    page.click("#nav >> text=Jobs")
    page.wait_for_selector("h1:has-text('Jobs')")
    assert page.is_visible("td:has-text('lake.shop.customers')")
