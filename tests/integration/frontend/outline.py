"""What a screen reader gets of a page, and what is wrong with it: labels, names of
buttons and links, heads of tables, order of headings, references between elements.

Chromium and axe-core look at some pages as they are drawn; this looks at the HTML of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"br", "hr", "img", "input", "link", "meta", "source", "wbr"}
CONTROLS = {"input", "select", "textarea"}
NAMED = {"button", "a", "summary", "th", "caption", "legend", "dialog", "nav", "label"}
REFERENCES = ("for", "aria-labelledby", "aria-describedby", "aria-controls", "list")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


@dataclass
class Element:
    tag: str
    attrs: dict[str, str]
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = " ".join(f'{name}="{value}"' for name, value in self.attrs.items())
        return f"<{self.tag} {shown}>{self.text[:40]}"

    @property
    def text(self) -> str:
        """What is read aloud: `aria-hidden` parts are not."""
        parts = (
            one if isinstance(one, str) else one.text
            for one in self.children
            if isinstance(one, str) or one.attrs.get("aria-hidden") != "true"
        )
        return " ".join("".join(parts).split())

    def inside(self, tag: str) -> bool:
        above = self.parent
        while above and above.tag != tag:
            above = above.parent
        return above is not None


class Outline(HTMLParser):
    """The elements of a page or of a part of one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open = Element("", {})
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs}, self._open)
        self._open.children.append(made)
        self.elements.append(made)
        if tag not in VOID:
            self._open = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open.parent:
            ended, self._open = self._open.tag, self._open.parent
            if ended == tag:
                return

    def handle_data(self, data: str) -> None:
        self._open.children.append(data)

    def all(self, *tags: str) -> list[Element]:
        return [one for one in self.elements if one.tag in tags]


def title_of(page: str) -> str:
    return Outline(page).all("title")[0].text


def faults(page: str) -> list[str]:
    """What somebody without a screen or a mouse would miss on a page or a part of it."""
    outline = Outline(page)
    checks: list[Callable[[Outline], Iterator[str]]]
    checks = [_twice, _unnamed, _unlabelled, _tables]
    if outline.all("html"):
        checks += [_dangling, _shell, _headings]
    return [fault for check in checks for fault in check(outline)]


def _twice(outline: Outline) -> Iterator[str]:
    ids = Counter(one.attrs["id"] for one in outline.elements if "id" in one.attrs)
    yield from (f"id twice: {name}" for name, count in ids.items() if count > 1)


def _unnamed(outline: Outline) -> Iterator[str]:
    for one in outline.elements:
        is_stop = one.attrs.get("tabindex") == "0" or one.attrs.get("role") == "img"
        # its text is its name only where it is a control
        text = one.text if one.tag in NAMED - {"dialog", "nav"} else ""
        named = {"aria-label", "aria-labelledby"} & set(one.attrs)
        if (one.tag in NAMED or is_stop) and not text and not named:
            yield f"no name: {one}"
        if one.tag == "svg" and not is_stop and "aria-hidden" not in one.attrs:
            yield f"a picture without text or aria-hidden: {one}"


def _unlabelled(outline: Outline) -> Iterator[str]:
    labelled = {one.attrs.get("for") for one in outline.all("label")}
    for one in outline.all(*CONTROLS):
        if one.attrs.get("type") == "hidden" or _is_hidden(one):
            continue
        has_name = {"aria-label", "aria-labelledby"} & set(one.attrs)
        is_labelled = one.attrs.get("id") in labelled or one.inside("label")
        if not has_name and not is_labelled:
            yield f"no label: {one}"
        if one.attrs.get("aria-invalid") and not one.attrs.get("aria-describedby"):
            yield f"an error that is not bound to its field: {one}"


def _is_hidden(one: Element) -> bool:
    above = one.parent
    while above and "hidden" not in above.attrs:
        above = above.parent
    return above is not None


def _tables(outline: Outline) -> Iterator[str]:
    yield from (
        f"no scope: {th}" for th in outline.all("th") if "scope" not in th.attrs
    )
    for table in outline.all("table"):
        captions = [c for c in outline.all("caption") if c.parent is table]
        if len(captions) != 1:
            yield f"a table without a caption: {table}"


def _dangling(outline: Outline) -> Iterator[str]:
    ids = {one.attrs.get("id") for one in outline.elements}
    for one in outline.elements:
        for name in REFERENCES:
            for wanted in one.attrs.get(name, "").split():
                if wanted not in ids:
                    yield f"{name} names nothing: {one}"
        target = one.attrs.get("href", "")
        if target.startswith("#") and target[1:] not in ids:
            yield f"leads nowhere: {one}"


def _shell(outline: Outline) -> Iterator[str]:
    if not outline.all("html")[0].attrs.get("lang"):
        yield "no language"
    if len(outline.all("main")) != 1:
        yield "not one main"
    if not outline.all("title") or not outline.all("title")[0].text:
        yield "no title"


def _headings(outline: Outline) -> Iterator[str]:
    levels = [HEADINGS.index(one.tag) for one in outline.all(*HEADINGS)]
    if levels[:1] != [0] or levels.count(0) != 1:
        yield f"not one h1, and first: {levels}"
    for above, below in pairwise(levels):
        if below > above + 1:
            yield f"a level of headings is left out: {levels}"
