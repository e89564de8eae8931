"""The lake's small files are whole or absent, whoever else writes, on a file system
and on an object store alike."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import InvalidRequest, StaleState, TransientError
from ingest.contract.table import FenceSpec
from ingest.lake.fence import (
    fence_at,
    fence_path,
    foreign_token,
    raise_fence,
    require_fence,
    take_back,
)
from ingest.lake.files import local_path
from ingest.lake.place import place_at
from ingest.lake.staging import (
    ChunkManifest,
    LoadPlan,
    StagingArea,
    require_space,
    why_anew,
)
from ingest.sources.chunks import Chunk
from ingest.sources.fingerprint import ServerFingerprint, SourceFingerprint, to_data


@pytest.mark.parametrize(
    ("uri", "wanted"), [("/lake/x", "/lake/x"), ("file:///lake/x", "/lake/x")]
)
def test_local_lakes(uri: str, wanted: str) -> None:
    assert local_path(uri) == Path(wanted)


@pytest.mark.parametrize(
    "uri", ["s3://bucket/x", "lake", "hdfs://n/x", "file://host/x"]
)
def test_other_lakes_are_refused(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        local_path(uri)


def test_a_folder_that_cannot_be_listed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(TransientError, match="Input/output error"):
        list(place_at(str(tmp_path)).files())


def test_a_fence_only_rises(lake: str) -> None:
    path = fence_path(lake, 3)
    assert path.uri == f"{lake}/_sluice/fence/3"
    assert fence_path(lake, 3, "service") != path
    assert fence_at(path) == 0
    raise_fence(path, 5)
    raise_fence(path, 5)
    with pytest.raises(StaleState):
        raise_fence(path, 4)
    raise_fence(path, 9)
    require_fence(FenceSpec(path.uri, 9))
    for token in (5, 10):
        with pytest.raises(StaleState):
            require_fence(FenceSpec(path.uri, token))


@pytest.mark.parametrize(
    ("found", "foreign", "mine"),
    [
        ("7", "", 7),
        ("3", "", 7),
        ("900", "900", 901),
        # a lease's token cannot go beyond it
        ("9" * 30, "9" * 30, 7),
        ("-1", "-1", 7),
        ("not a token", "not a token", 7),
        ("", "nothing", 7),
    ],
)
def test_a_fence_is_taken_back_from_whoever_took_it(
    lake: str, found: str, foreign: str, mine: int
) -> None:
    path = fence_path(lake, 4)
    assert foreign_token(path, upto=7) == ""
    path.replace(f"{found}\n")
    assert foreign_token(path, upto=7) == foreign
    assert take_back(path, 7) == mine
    require_fence(FenceSpec(path.uri, mine))
    assert take_back(path, mine) == mine
    raise_fence(path, mine + 1)


def test_many_raisers_leave_the_highest(lake: str) -> None:
    path = fence_path(lake, 1)

    def work(token: int) -> None:
        try:
            raise_fence(path, token)
        except StaleState:
            return

    crew = [threading.Thread(target=work, args=(i,)) for i in range(1, 33)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert fence_at(path) == 32


def test_a_chunk_counts_when_its_manifest_is_there(lake: str) -> None:
    area = StagingArea(f"{lake}/stage")
    assert area.plan() is None
    plan = LoadPlan(
        "f", "key", (Chunk(0, (), ("5",)), Chunk(1, ("5",), ("9",))), "snap", "b"
    )
    area.begin(plan)
    assert area.plan() == plan
    for number in (0, 1):
        (area.chunk_folder(number) / "part").replace("rows")
    assert area.finished() == {}
    area.finish(ChunkManifest(1, "snap", 1, 10, 100))
    assert list(area.finished()) == [1]
    area.begin(plan)
    assert area.finished() == {}
    area.clear()
    assert area.plan() is None


PRIMARY = ServerFingerprint(server="7", timeline=1, log={"transaction": 900})


@pytest.mark.parametrize(
    ("source_fingerprint", "definition", "server", "why"),
    [
        (PRIMARY, "d", PRIMARY, ""),
        (PRIMARY, "other", PRIMARY, "rewritten or altered"),
        (PRIMARY, "d", replace(PRIMARY, timeline=2), "promoted or restored"),
        (PRIMARY, "d", replace(PRIMARY, server="8"), "another server"),
        (PRIMARY, "d", replace(PRIMARY, log={"transaction": 800}), "earlier moment"),
        # the server says nothing of itself
        (ServerFingerprint(), "d", PRIMARY, ""),
    ],
)
def test_chunks_of_two_servers_do_not_go_together(
    source_fingerprint: ServerFingerprint,
    definition: str,
    server: ServerFingerprint,
    why: str,
) -> None:
    plan = LoadPlan(
        "f",
        "key",
        (),
        "d",
        source_fingerprint=to_data(SourceFingerprint(server=source_fingerprint)),
    )
    found = why_anew(plan, definition, server, datetime(2026, 1, 1, tzinfo=UTC))
    assert why in found
    assert bool(found) is bool(why)


def test_a_full_staging_area_is_said_before_reading(tmp_path: Path) -> None:
    require_space(str(tmp_path / "not" / "yet"), 1)
    with pytest.raises(TransientError) as caught:
        require_space(str(tmp_path), 2**62)
    assert caught.value.code == "staging_full"
