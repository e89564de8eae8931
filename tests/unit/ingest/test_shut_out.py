"""A sync whose table was taken over while it read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from core.errors import StaleState
from ingest.contract.epochs import SealedFile
from ingest.contract.job import FenceSpec, JobSpec, SourceSpec, SyncWork
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture import timestamp
from ingest.driver.capture.timestamp import TimestampFollower, Window
from ingest.lake.epochs import epoch_folder, seals_of
from ingest.lake.fence import fence_path, raise_fence
from ingest.sources.port import SourceAccess

SOURCE = SourceSpec(7, "postgresql", "h", 1, "d", "u", "datasource:7")


def sync_of(lake: str, *, token: int) -> JobSpec:
    columns = (ColumnSpec("at", "at", "timestamp with time zone", "timestamp"),)
    path = f"{lake}/o"
    table = TableSpec(
        1, "public", "o", "shop", "o", path, f"{lake}/s", columns, (), cursor="at"
    )
    return JobSpec(
        "me",
        1,
        "sync",
        "apply",
        lake,
        table,
        FenceSpec(fence_path(lake, 1).uri, token),
        source=SOURCE,
        sync=SyncWork(low=None, lag_seconds=5, epoch=3),
    )


@pytest.mark.parametrize("is_shut_out", [False, True])
def test_one_that_is_shut_out_while_it_reads_seals_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shut_out: bool
) -> None:
    """A re-sync that goes on with an earlier epoch has looked for seals by then: the
    next sync would write these rows over its fresh copy."""
    lake = str(tmp_path)
    fence = fence_path(lake, 1)
    raise_fence(fence, 5)
    events = epoch_folder(lake, 7, 3) / "1" / "part"

    def read(*_: Any) -> tuple[Window, SealedFile]:
        events.replace("rows")
        if is_shut_out:
            raise_fence(fence, 6)
        return Window("", "b", "b", None, False, 0), SealedFile(1, "1", 1, 4)

    monkeypatch.setattr(timestamp, "_captured_patiently", read)
    run = JobRun(sync_of(lake, token=5), lambda ref: NotImplemented)
    nothing = cast(Any, None)
    follower = TimestampFollower(run, nothing, SourceAccess(SOURCE, "", ""), nothing)
    if not is_shut_out:
        follower.capture(())
        assert [s.job_id for s in seals_of(lake, 7, 3)] == ["me"]
        return
    with pytest.raises(StaleState) as caught:
        follower.capture(())
    assert caught.value.code == "fenced"
    assert seals_of(lake, 7, 3) == []
    assert events.exists(), "the cleaning takes it, under the fence of now"
