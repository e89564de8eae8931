"""What another release stored is read by what this one knows of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from core.errors import SluiceError
from ingest.contract.applying import (
    Applied,
    ApplyProblem,
    ApplyReport,
    ApplyTable,
    ApplyWork,
)
from ingest.contract.job import (
    CompactionBudget,
    CompactWork,
    DriverSpec,
    ErrorFact,
    JobReport,
    JobSpec,
    RepairWork,
    SnapshotWork,
    SyncWork,
    VerifyWork,
    report_from,
    spec_from,
)
from ingest.contract.members import as_data, encode, value_of
from ingest.contract.table import ColumnSpec, FenceSpec, SourceSpec, TableSpec
from ingest.contract.written import Totals
from ingest.lake.hudi.identity import TableIdentity
from ingest.lake.hudi.options import (
    CommitPosition,
    LoadPoint,
    decode_position,
    encode_position,
)
from ingest.lake.staging import ChunkManifest, LoadPlan, StagingArea
from ingest.sources.chunks import Chunk

TABLE = TableSpec(
    1, "public", "o", "shop", "o", "/lake/shop/o", "/lake/_sluice/staging/1",
    (ColumnSpec("id", "id", "integer", "int"),), ("id",),
)  # fmt: skip
SPEC = JobSpec(
    "job", 1, "sync", "apply", "/lake", TABLE, FenceSpec("/lake/_sluice/fence/1", 4),
    source=SourceSpec(1, "postgresql", "h", 1, "d", "u", "datasource:1"),
    snapshot=SnapshotWork(), sync=SyncWork("a", 1.0), compact=CompactWork(("i",)),
    verify=VerifyWork(), repair=RepairWork("rollback"), driver=DriverSpec("1g", 1),
)  # fmt: skip
POSITION = CommitPosition(
    7, "a", "b", 1, 2, "job", 4, TableIdentity(("id",), 2), LoadPoint("a", "10:10:")
)
REPORT = JobReport("job", 1, "terminal", {"rows": 1}, ("w",), ErrorFact("c", "m"))

STORED: dict[str, tuple[Any, str, Callable[[str], Any]]] = {
    "position": (POSITION, encode_position(POSITION), decode_position),
    "job spec": (SPEC, encode(SPEC), lambda text: spec_from(json.loads(text))),
    "job report": (REPORT, encode(REPORT), lambda text: report_from(json.loads(text))),
}
# Members whose keys are data: what is in them is not a member of a value.
DATA = frozenset({"facts", "source_fingerprint", "lossy", "sentences"})


def with_more(value: Any, *, inside: str = "") -> Any:
    """Every object of the JSON with one more member."""
    if isinstance(value, list):
        return [with_more(item) for item in value]
    if not isinstance(value, dict):
        return value
    grown = {name: with_more(item, inside=name) for name, item in value.items()}
    return grown if inside in DATA else {**grown, "of_a_later_release": {"a": [1]}}


@pytest.mark.parametrize("what", STORED)
def test_members_that_are_not_known_are_ignored(what: str) -> None:
    value, text, decode = STORED[what]
    assert decode(text) == value
    more = json.dumps(with_more(json.loads(text)))
    assert more.count("of_a_later_release") > 1
    assert decode(more) == value


@pytest.mark.parametrize("what", STORED)
@pytest.mark.parametrize("version", [2, 0, "1", None, True])
def test_a_version_means_what_the_members_mean(what: str, version: Any) -> None:
    _, text, decode = STORED[what]
    with pytest.raises(SluiceError) as caught:
        decode(json.dumps(json.loads(text) | {"v": version}))
    words = "version 2" if version == 2 else "version is"
    assert words in caught.value.message
    assert version != 2 or caught.value.hint


@pytest.mark.parametrize("what", STORED)
def test_a_value_without_a_required_member_is_damaged(what: str) -> None:
    decode = STORED[what][2]
    for damaged in ('{"v": 1}', "[]", "no json", "{}"):
        if what.startswith("job") and not damaged.startswith("{"):
            continue
        with pytest.raises(SluiceError):
            decode(damaged)


@pytest.mark.parametrize(
    ("what", "member", "value", "place"),
    [
        ("position", "fence", "4", "expected `int`, got `str` at `$.fence`"),
        ("job spec", "table", {}, "required field `table_id` at `$.table`"),
        ("job spec", "lane", "fast", "invalid enum value 'fast' at `$.lane`"),
        ("job report", "warnings", "w", "expected `array`, got `str` at `$.warnings`"),
    ],
)
def test_a_member_of_another_type_is_named(
    what: str, member: str, value: Any, place: str
) -> None:
    _, text, decode = STORED[what]
    with pytest.raises(SluiceError) as caught:
        decode(json.dumps(json.loads(text) | {member: value}))
    assert place in caught.value.message


def test_staged_files_of_another_release(tmp_path: Any) -> None:
    area = StagingArea(str(tmp_path))
    plan = LoadPlan("f", "key", (Chunk(0, (), ("5",)),), "snap", "b")
    manifest = ChunkManifest(0, "snap", 1, 10, 100)
    area.begin(plan)
    (area.chunk_folder(0) / "part").replace("rows")
    area.finish(manifest)
    files = [tmp_path / "load" / "plan.json"]
    files += (tmp_path / "load" / "chunks").glob("*.json")
    assert len(files) == 2
    for file in files:
        file.write_text(json.dumps(with_more(json.loads(file.read_text())) | {"v": 1}))
    assert area.plan() == plan
    assert area.finished() == {0: manifest}
    for file in files:
        file.write_text(json.dumps(json.loads(file.read_text()) | {"v": 2}))
    for read in (area.plan, area.finished):
        with pytest.raises(SluiceError, match="version 2") as caught:
            read()
        assert caught.value.code == "staging_too_new"


def test_what_sessions_are_told_and_tell() -> None:
    budget = CompactionBudget(2.0, 5, Totals("0", {}, {"deltacommit": 3}))
    table = ApplyTable(TABLE, SPEC.fence, 1.0, 3, budget)
    assert SPEC.source is not None
    work = ApplyWork("run", SPEC.source, "pg", "/lake", 2, (table,))
    assert value_of(ApplyWork, as_data(work)) == work
    fault = ApplyProblem(2, "transient", ErrorFact("c", "m"))
    done = Applied(1, 7, "a", is_live=True, pending_compactions=("i",))
    report = ApplyReport("run", "pg", 2, (1, 2), (done,), (fault,))
    assert value_of(ApplyReport, with_more(as_data(report))) == report
