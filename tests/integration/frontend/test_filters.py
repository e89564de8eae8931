"""Forms that filter a page's list in its place."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.django_db

FORM = re.compile(r'<form class="toolbar[^>]*role="search"[^>]*hx-get="([^"]+)"[^>]*>')
NAMED = re.compile(r'(?:hx-target|hx-select|hx-select-oob)="#([\w-]+)"|from:#([\w-]+)')


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/audit", {"entries"}),
        ("/alerts", {"alert-list"}),
        ("/health", {"fleet", "bands"}),
        ("/jobs", {"job-list"}),
        ("/tables", {"table-list", "filter-q"}),
    ],
)
def test_what_a_filter_names_is_on_its_page(world, browse, path, named):
    text = browse("root").get(path).content.decode()
    form = FORM.search(text)
    assert form
    assert form[1] == path
    assert {a or b for a, b in NAMED.findall(form[0])} == named
    assert all(f'id="{name}"' in text for name in named)
    content = text[form.end() : text.index("</form>", form.end())]
    assert "<select" in content
    assert "&lt;" not in content
    assert content.rstrip().endswith("Filter</button>")
