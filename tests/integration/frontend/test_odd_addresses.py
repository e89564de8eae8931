"""Addresses and forms with what no text is are refused on a page, on every page."""

from __future__ import annotations

import pytest
from django.urls import URLPattern, reverse
from django.urls.exceptions import NoReverseMatch

from frontend.urls import urlpatterns

pytestmark = pytest.mark.django_db
ODD = ["\x00", "a\x00b"]
QUERY = dict.fromkeys(
    ["q", "name", "on", "state", "kind", "table", "next", "before", "after", "page",
     "principal", "actor", "user", "action", "group", "saved", "at", "source", "sort"],
    "a\x00b",
)  # fmt: skip


def pages() -> list[str]:
    found = []
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        if pattern.name == "logout":
            continue
        for args in ([], ["a\x00b"]):
            try:
                found.append(reverse(f"frontend:{pattern.name}", args=args))
            except NoReverseMatch:
                continue
    return found


def test_no_page_fails_by_what_is_no_text(world, browse) -> None:
    root = browse("root")
    root.raise_request_exception = False
    statuses = {
        (path, method): ask(path, data).status_code
        for path in pages()
        for method, ask, data in (
            ("GET", root.get, {}),
            ("GET?", root.get, QUERY),
            ("POST", root.post, QUERY),
        )
    }
    assert {who: s for who, s in statuses.items() if s >= 500} == {}
