"""The pages that people read when something is wrong are quick to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = ("reading.md", "limits.md")
LONGEST_SENTENCE, LONGEST_CELL = 25, 60
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
CODE = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
END = re.compile(r"(?<=[.!?:])\)?\**\s+")


def sentences(text: str) -> Iterator[str]:
    """Of paragraphs and items of lists."""
    block: list[str] = []
    for line in [*CODE.sub("", text).splitlines(), ""]:
        begins = bool(ITEM.match(line))
        if begins or not line.strip() or line.startswith(("|", "#")):
            yield from END.split(" ".join(block))
            block = []
        if line.strip() and not line.startswith(("|", "#")):
            block.append(ITEM.sub("", line).strip())


def cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield from line.strip("|").split("|")


@pytest.mark.parametrize("name", PAGES)
def test_sentences_and_cells_are_short(name: str) -> None:
    text = (DOCS / name).read_text()
    long = [one for one in sentences(text) if len(one.split()) > LONGEST_SENTENCE]
    assert long == []
    assert [one for one in cells(text) if len(one.split()) > LONGEST_CELL] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_what_to_do(name: str) -> None:
    headings = re.findall(r"^## (.*)$", (DOCS / name).read_text(), re.MULTILINE)
    assert headings[0] == "What to do first"
