"""Pages without a mouse: what Tab reaches, where the focus stays, what is announced."""

from __future__ import annotations

import os

import pytest

from catalog.models import Table
from core.models import Job

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
    page.click("#nav >> text=Activity")
    page.wait_for_selector("h1:has-text('Activity')")
    assert page.is_visible("td:has-text('shop.customers')")


FOCUS = "document.activeElement.getAttribute('href') || document.activeElement.id"


def test_what_a_poll_replaces_keeps_the_focus_and_what_is_open(page):
    """Of a job's page, and of the list of jobs; its new state is announced."""
    job = Job.objects.get(state="RUNNING", kind="snapshot")
    page.open("/jobs")
    link = f"a[href='/jobs/{job.pk}']"
    page.focus(link)
    page.evaluate("link => { document.querySelector(link).isOld = true }", link)
    page.wait_for_function("link => !document.querySelector(link).isOld", arg=link)
    assert page.evaluate(FOCUS) == f"/jobs/{job.pk}"
    Job.objects.filter(pk=job.pk).update(state="CANCELLING", reason="an error")
    page.open(f"/jobs/{job.pk}")
    page.wait_for_selector("#job-live [data-state=CANCELLING]")
    page.evaluate("document.querySelector('#job-live').tabIndex = -1")
    page.focus("#job-live")
    Job.objects.filter(pk=job.pk).update(state="FAILED", error_message="no disk")
    page.wait_for_selector("#job-live [data-state=FAILED]")
    assert page.inner_text("#announcer") == "Progress failed"
    assert page.evaluate("document.activeElement.id") == "job-live"


@pytest.mark.long
def test_a_choice_by_arrows_filters_in_place(page):
    """No page is loaded anew below the fingers: the focus stays, the count is read."""
    for path, field, part in (
        ("/jobs", "#filter-state", "#job-list"),
        ("/alerts", "#alert-state", "#alert-list"),
        ("/audit", "#audit-outcome", "#entries"),
        ("/health", "#filter-code", "#fleet"),
        ("/tables", "#filter-status", "#table-list"),
    ):
        page.open(path)
        page.wait_for_load_state("networkidle")
        page.evaluate("window.isSame = true")
        page.focus(field)
        page.keyboard.press("ArrowDown")
        page.wait_for_selector("#announcer:has-text('rows')", state="attached")
        assert page.evaluate("window.isSame"), path
        assert f"#{page.evaluate('document.activeElement.id')}" == field
        shown = page.locator(f"{part} tbody tr").count()
        assert page.inner_text("#announcer") == f"{shown} rows"
        assert "=" in page.url


def test_a_menu_of_actions_closes_by_escape(page):
    page.open(f"/tables/{Table.objects.get(name='orders', kind='lake').pk}")
    page.focus("#more-actions summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.locator("#more-actions[open]").count() == 0
    assert page.evaluate("document.activeElement.localName") == "summary"


def test_single_keys_can_be_switched_off(page):
    page.open("/")
    page.click("[data-action=keys]")
    page.uncheck("#single-keys")
    page.keyboard.press("Escape")
    focused = "document.activeElement.dataset.action"
    assert page.evaluate(focused) == "keys", "the focus is back where it was"
    page.open("/")
    page.keyboard.press("?")
    page.keyboard.press("/")
    assert page.locator("#keys[open]").count() == 0
    assert page.evaluate("document.activeElement === document.body")


def test_tab_passes_the_list_of_tables(page):
    page.open("/sources/shop/onboard")
    page.wait_for_selector(".vrow input:not(:disabled)")
    boxes = page.locator(".vrow input:not(:disabled)")
    assert boxes.count() > 1
    assert page.locator(".vrow input[tabindex='0']").count() == 1
    page.focus(".vlist")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert page.inner_text("#picked-count") == "2"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "capture"
