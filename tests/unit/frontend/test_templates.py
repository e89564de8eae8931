"""Templates are read by people, too: djlint judges the markup, this the layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).resolve().parents[3] / "frontend" / "templates"
PATHS = sorted(TEMPLATES.rglob("*.html"))
LONGEST = 120
# An element is one whole: its head ends on a line that does more than end it.
BROKEN = re.compile(r"^\s*>|</[\w-]*\s*$")
VERBATIM = re.compile(r"<(pre|script|textarea)\b.*?</\1>", re.S)
OPENED = re.compile(r"<(?P<tag>[a-z][\w-]*)|{% (?P<block>\w+)")
CLOSED = re.compile(r"</(?P<tag>[a-z][\w-]*)>|{% end(?P<block>\w+)")


def lines_of(path: Path) -> list[str]:
    """The lines of a template, those of preformatted text blank."""
    text = VERBATIM.sub(lambda found: re.sub(r"[^\n]", "", found[0]), path.read_text())
    return text.splitlines()


def faults_of(lines: list[str]) -> Iterator[str]:
    """What does not end at the indentation where it begins, or begins at an odd one."""
    begun: dict[str, list[int]] = {}
    for number, line in enumerate(lines, 1):
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if bare and indent % 2:
            yield f"{number}: {indent} spaces"
        if found := OPENED.match(bare):
            name = found["tag"] or found["block"]
            if not re.search(rf"</{name}>|{{% end{name} %}}", bare):
                begun.setdefault(name, []).append(indent)
        elif found := CLOSED.match(bare):
            name = found["tag"] or found["block"]
            while (stack := begun.get(name)) and stack[-1] > indent:
                stack.pop()
            if not stack or stack.pop() != indent:
                yield f"{number}: {bare} is not below what it ends"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_lines_are_whole_and_no_longer_than_a_screen(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > LONGEST] == []
    assert [line for line in lines if BROKEN.search(line)] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_begins_on_a_line_ends_below_it(path: Path) -> None:
    assert list(faults_of(lines_of(path))) == []


def test_faults_are_found() -> None:
    assert list(faults_of(["<p>", "  {% if a %}", "  {% endif %}", "</p>"])) == []
    assert list(faults_of(["<p>", " {% if a %}", " {% endif %}", "  </p>"]))
    assert BROKEN.search("  ><span>")
    assert BROKEN.search("text</span")
    assert not BROKEN.search("<span>{{ a }}</span>")
