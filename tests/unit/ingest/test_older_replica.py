"""A server that is behind the lake is not read for a repair."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import TransientError
from ingest.contract.positions import Replica, SourceClock, to_text
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.capture.reading import require_shown
from ingest.driver.table_services.verify_log import Since, require_behind_lake

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
AGO = NOW - timedelta(minutes=2)


class FakeSource:
    def __init__(self, replica: Replica | None) -> None:
        self._clock = SourceClock(NOW, (), True, (-3600, 0), replica)

    def clock(self) -> SourceClock:
        return self._clock


@pytest.mark.parametrize(
    ("type", "replica", "code"),
    [
        ("timestamp", None, ""),
        ("timestamp", Replica(NOW), ""),
        ("timestamp", Replica(AGO), ""),
        ("timestamp", Replica(AGO - timedelta(seconds=1)), "source_behind"),
        ("timestamp", Replica(None), "replication_stopped"),
        # its position is never beyond the earlier one of UTC and local time
        ("timestamp_ntz", Replica(AGO), "source_behind"),
    ],
)
def test_what_it_does_not_show_is_not_read(
    type: str, replica: Replica | None, code: str
) -> None:
    column = ColumnSpec("at", "at", type, type)
    paths = ("s", "o", "shop", "t1", "/lake/t1", "/lake/staging")
    table = TableSpec(1, *paths, (column,), (), cursor="at")
    source: Any = FakeSource(replica)
    position = to_text(AGO, has_zone=type == "timestamp")
    if not code:
        require_shown(source, table, position)
        return
    with pytest.raises(TransientError) as caught:
        require_shown(source, table, position)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("here", "is_read"),
    [
        ("lsn:7:1:0/C", True),
        ("lsn:7:1:0/9", True),
        ("lsn:7:1:0/5", False),
        # promoted, and nothing was read of its log yet
        ("lsn:7:2:0/C", False),
    ],
)
def test_what_a_log_had_is_there(here: str, *, is_read: bool) -> None:
    stream: Any = SimpleNamespace(newest=SimpleNamespace(end="lsn:7:1:0/9"))
    table = SimpleNamespace(database="shop", name="t1")
    run: Any = SimpleNamespace(spec=SimpleNamespace(table=table))
    since = Since(stream, 1, here)
    if is_read:
        require_behind_lake(run, since, here)
        return
    with pytest.raises(TransientError) as caught:
        require_behind_lake(run, since, here)
    assert caught.value.code == "source_moved"
