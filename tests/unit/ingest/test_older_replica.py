"""A server that is behind the lake is not compared with it, nor read for a repair; and
what differed from one is not repaired from another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import InvalidRequest, TransientError
from ingest.contract.positions import Replica, SourceClock, to_text
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.capture.reading import require_shown
from ingest.driver.table_services import chunk_repair, verify
from ingest.driver.table_services.verify_log import Since, require_behind_lake
from ingest.sources.fingerprint import ServerFingerprint, SourceFingerprint, to_data

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
AGO = NOW - timedelta(minutes=2)
PATHS = ("s", "o", "shop", "t1", "/lake/t1", "/lake/staging")
AT = ColumnSpec("at", "at", "timestamp", "timestamp")
TABLE = TableSpec(1, *PATHS, (AT,), (), cursor="at")


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
    table = replace(TABLE, columns=(column,))
    source: Any = FakeSource(replica)
    position = to_text(AGO, has_zone=type == "timestamp")
    if not code:
        require_shown(source, table, position)
        return
    with pytest.raises(TransientError) as caught:
        require_shown(source, table, position)
    assert caught.value.code == code


def test_a_verification_says_that_it_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = FakeSource(Replica(AGO - timedelta(seconds=1)))

    @contextmanager
    def opened(*_: Any) -> Iterator[tuple[Any, Any]]:
        yield source, SimpleNamespace()

    monkeypatch.setattr(verify, "open_stoppable", opened)
    monkeypatch.setattr(verify, "read_patiently", lambda _r, _s, read, **_: read(None))
    nothing: Any = SimpleNamespace()
    run: Any = SimpleNamespace(spec=SimpleNamespace(table=TABLE))
    position = to_text(AGO, has_zone=True)
    check = verify._Check(run, *[nothing] * 6, position=position)
    with pytest.raises(TransientError) as caught:
        verify._stage_source(check, nothing)
    assert caught.value.code == "source_behind"


WAS = ServerFingerprint(relation="5", is_exact=True, server="a", log={"lsn": 7})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (replace(WAS, log={"lsn": 9}, files=(4,)), ""),
        (replace(WAS, server="b"), "another server"),
        (replace(WAS, relation="6"), "dropped and created again"),
        (replace(WAS, log={"lsn": 6}), "went back"),
    ],
)
def test_a_repair_reads_what_was_compared(now: ServerFingerprint, words: str) -> None:
    source: Any = FakeSource(None)
    source.source_fingerprint = lambda _table: now
    spec = SimpleNamespace(table=TABLE)
    record = SimpleNamespace(source_fingerprint=to_data(SourceFingerprint(WAS)))
    repair: Any = SimpleNamespace(run=SimpleNamespace(spec=spec), record=record)
    if not words:
        chunk_repair._require_same_source(repair, source)
        return
    with pytest.raises(InvalidRequest, match=words) as caught:
        chunk_repair._require_same_source(repair, source)
    assert caught.value.code == "source_changed"


@pytest.mark.parametrize(
    ("known", "there", "position"),
    [
        ("2026-01-02", "2026-01-03", "2026-01-03"),
        ("2026-01-02", "", "2026-01-02"),
        # it left its log, and no row came by its cursor since
        ("2026-01-02", "lsn:7:1:0/9", "2026-01-02"),
        ("", "lsn:7:1:0/9", ""),
    ],
)
def test_up_to_where_a_source_has_to_show_all(
    known: str, there: str, position: str
) -> None:
    assert chunk_repair.cursor_position(TABLE, known, there) == position
    of_snapshots = replace(TABLE, cursor=None)
    assert chunk_repair.cursor_position(of_snapshots, known, there) == ""


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
