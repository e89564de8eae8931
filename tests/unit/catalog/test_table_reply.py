"""What a source's table says of itself over REST."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from catalog.api.replies import Table

SYNC = {"state": "LIVE", "reason": ""}


@pytest.mark.parametrize(
    ("status", "reason", "shown"),
    [
        ("DISCOVERED", "", "synced as lake.shop.t, which is LIVE"),
        (
            "DISCOVERED",
            "s is hidden",
            "synced as lake.shop.t, which is LIVE. s is hidden",
        ),
        ("VANISHED", "not found", "not found"),
    ],
)
def test_hidden_columns_do_not_replace_how_it_is_synced(
    status: str, reason: str, shown: str
) -> None:
    table: Any = SimpleNamespace(
        status=status, status_reason=reason, sync=SYNC, lake_table="shop.t"
    )
    assert Table.status_reason_of(table) == shown
