"""Chromium for browser tests; screenshots are kept in .sluice/screenshots/, those of
failures always and all of them with `--long=all`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import LIMIT_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

FAILED = pytest.StashKey[bool]()
SCREENSHOTS = Path(__file__).resolve().parents[2] / ".sluice" / "screenshots"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "Chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(
    chromium: Browser, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Page]]:
    """Make a page; whatever it complains about on its console fails the test."""
    contexts, complaints = [], []

    def make(
        *,
        width: int = 1280,
        height: int = 860,
        dark: bool = False,
        locale: str = "en-US",
        zone: str = "UTC",
        scripts: bool = True,
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            locale=locale,
            timezone_id=zone,
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LIMIT_SECONDS * 1000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", note)
        return page

    def note(message: ConsoleMessage) -> None:
        is_wrong_login = message.location["url"].endswith("/login")  # answers 403
        # of a poll that was under way when its page was left; one that fails by itself
        # says htmx:sendError or htmx:responseError
        is_left = message.text.startswith(("htmx:sendAbort", "htmx:afterRequest"))
        if message.type == "error" and not is_wrong_login and not is_left:
            complaints.append(message.text)

    yield make
    if request.node.stash.get(FAILED, False):
        keep_evidence(contexts, request.node.name)
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(logged_in):
    """Logged in as the administrator of a small world; `open(path)` goes to a page."""
    return logged_in()


@pytest.fixture
def logged_in(live_server, settings, redis_url, open_page):
    from tests.integration.frontend.world import build

    settings.STATIC_ROOT.mkdir(exist_ok=True)
    build()

    def make(**options):
        return log_in(live_server, open_page(**options))

    return make


def log_in(live_server, made):
    from tests.integration.frontend.world import PASSWORD

    made.open = lambda path: made.goto(live_server.url + path)
    made.open("/login")
    made.fill("#username", "root")
    made.fill("#password", PASSWORD)
    made.keyboard.press("Enter")
    made.wait_for_selector("h1:has-text('Home')")
    return made


def keep_evidence(contexts: list[BrowserContext], name: str) -> None:
    """What a person would have seen when the test gave up, in words and as picture."""
    for number, page in enumerate(p for context in contexts for p in context.pages):
        print(f"--- page {number} at the failure: {page.url}")  # noqa: T201
        print(page.inner_text("body")[:4000])  # noqa: T201
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(SCREENSHOTS / f"failed-{name}-{number}.png"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Save a screenshot of the whole page under a name, in a run of all long tests."""
    is_wanted = request.config.getoption("--long") == "all"
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def save(page: Page, name: str) -> None:
        if is_wanted:
            page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=True)

    return save
