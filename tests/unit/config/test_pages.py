"""Pages of docs name things that are there: files, other pages, and their headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FILES = re.compile(r"`([a-z_]+(?:/[\w.]+)*/[\w.]+\.(?:py|java|md|yaml|toml))`")
LINKS = re.compile(r"\]\((?!https?:)([^)\s]*)\)")


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in LINKS.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [page.name[:4] for page in (ROOT / "docs" / "adr").glob("[0-9]*.md")]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name == "docs" and page.stem != "README"],
    ids=lambda page: page.name,
)
def test_each_page_is_linked_by_another(page: Path) -> None:
    others = (other.read_text() for other in PAGES if other != page)
    assert any(page.name in text for text in others)


def test_the_architecture_names_files_that_exist() -> None:
    named = FILES.findall((ROOT / "docs" / "architecture.md").read_text())
    assert len(named) > 50
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_sync_goes_through_as_many_files_as_the_page_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## The way of a sync\n")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    way = {path for row in rows for path in FILES.findall(row[2])}
    asked = {path for row in rows for path in FILES.findall(row[3])}
    said = re.search(r"through the (\d+) files .* ask (\d+) more", section, re.DOTALL)
    assert said is not None
    assert (len(way), len(asked - way)) == tuple(int(each) for each in said.groups())
