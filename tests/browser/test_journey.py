"""One person, one browser, the whole product: from log-in to a cancelled query."""

from __future__ import annotations

import pytest

from tests.browser.journey import walk

pytestmark = pytest.mark.timeout(1500)


def test_from_log_in_to_a_cancelled_query(product, open_page, keep):
    page = open_page()
    walk(page, product, "clinic", keep)
