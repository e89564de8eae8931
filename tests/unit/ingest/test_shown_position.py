"""Up to where a table that follows a log shows its source."""

from __future__ import annotations

import pytest

from ingest.driver.apply.log_session import shown_until
from ingest.lake.hudi.options import LoadPoint

BEFORE, AT, BEHIND = "lsn:7:1:0/5", "lsn:7:1:0/9", "lsn:7:1:0/C"


@pytest.mark.parametrize(
    ("end", "at", "shown"),
    [
        (BEFORE, "", BEFORE),
        # a load shows a moment; segments of before it take nothing back
        (AT, AT, AT),
        (BEFORE, AT, AT),
        (BEHIND, AT, BEHIND),
    ],
)
def test_it_does_not_step_back(end: str, at: str, shown: str) -> None:
    load = LoadPoint(at, "") if at else None
    assert shown_until(end, load) == shown
