"""Identity, options, positions and timelines are values with no surprises."""

from __future__ import annotations

import dataclasses
import json

import pytest

from core.errors import InvalidRequest, TerminalError
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.lake.hudi.identity import (
    KEY,
    TableIdentity,
    drift,
    identity_for,
    key_column,
    property_drift,
    put_back,
    refuse_drift,
)
from ingest.lake.hudi.options import (
    CommitPosition,
    WriterFence,
    decode_position,
    encode_position,
    latest,
    service_options,
    write_options,
)
from ingest.lake.hudi.properties import line_of, pairs_in
from ingest.lake.hudi.timeline import Timeline, parse_instant

IDENTITY = TableIdentity(("id",), 4)
FENCE = WriterFence("/lake/_sluice/fence/1", 7)


def table(
    key: tuple[str, ...], *columns: tuple[str, str, str], **k: object
) -> TableSpec:
    specs = tuple(ColumnSpec(n, n.lower(), s, t) for n, s, t in columns)
    values = {"row_hash": False, "buckets": 2, **k}
    return TableSpec(1, "s", "t", "d", "t", "/l/t", "/l/s", specs, key, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "source_type", "lake_type", "wanted"),
    [
        (("ID",), "bigint", "bigint", "id"),
        (("ID",), "smallint", "int", "id"),
        (("ID",), "uuid", "string", "id"),
        (("ID",), "text", "string", KEY),
        (("ID",), "timestamp with time zone", "timestamp", KEY),
        (("ID",), "numeric(9,0)", "decimal(9,0)", KEY),
        (("ID", "ID"), "bigint", "bigint", KEY),
        ((), "bigint", "bigint", KEY),
    ],
)
def test_only_keys_that_hudi_renders_one_way_are_used_as_they_are(
    key: tuple[str, ...], source_type: str, lake_type: str, wanted: str
) -> None:
    assert key_column(table(key, ("ID", source_type, lake_type))) == wanted


def test_drift_names_both_values_of_every_field() -> None:
    changes = {
        "record_key": ("other",),
        "buckets": 8,
        "partition_by": ("day",),
        "ordering": "ts",
        "merge_mode": "COMMIT_TIME_ORDERING",
        "delete_field": "d",
        "delete_marker": "D",
        "index": "BLOOM",
        "table_version": 8,
        "metadata_table": True,
        "lock_provider": "x.Y",
        "partial_update_mode": "IGNORE_DEFAULTS",
    }
    assert set(changes) == {f.name for f in dataclasses.fields(TableIdentity)}
    for name, value in changes.items():
        other = dataclasses.replace(IDENTITY, **{name: value})  # type: ignore[arg-type]
        (sentence,) = drift(IDENTITY, other)
        assert repr(value) in sentence
        assert repr(getattr(IDENTITY, name)) in sentence
    assert drift(IDENTITY, IDENTITY) == ()


def test_refusal_carries_the_differences() -> None:
    refuse_drift("shop.t", ())
    with pytest.raises(TerminalError) as caught:
        refuse_drift(
            "shop.t", drift(IDENTITY, dataclasses.replace(IDENTITY, buckets=8))
        )
    assert caught.value.code == "identity_drift"
    assert "4" in caught.value.message
    assert "8" in caught.value.message


def test_properties_are_compared_as_far_as_hudi_keeps_them() -> None:
    kept = {
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "_sluice_seq",
        "hoodie.table.partition.fields": "",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    }
    assert property_drift(kept, IDENTITY) == ()
    for name in (*kept, "hoodie.table.partial.update.mode"):
        assert property_drift({**kept, name: "other"}, IDENTITY)


def test_what_somebody_changed_in_the_properties_is_put_back() -> None:
    text = (
        "#Properties saved\n"
        "hoodie.table.name=o\n"
        "hoodie.table.recordkey.fields=other\n"
        "hoodie.table.version=10\n"
        "hoodie.table.type=MERGE_ON_READ\n"
        "hoodie.table.partial.update.mode=IGNORE_DEFAULTS\n"
        "hoodie.record.merge.mode = COMMIT_TIME_ORDERING\n"
    )
    assert put_back(text, IDENTITY).splitlines() == [
        "#Properties saved",
        "hoodie.table.name=o",
        "hoodie.table.recordkey.fields=id",
        # how its files are written is not changed by saying so
        "hoodie.table.version=10",
        "hoodie.table.type=MERGE_ON_READ",
        "hoodie.record.merge.mode=EVENT_TIME_ORDERING",
        "hoodie.table.ordering.fields=_sluice_seq",
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("编号,é", r"\u7F16\u53F7,\u00E9"),
        ("k\U0001f600", r"k\uD83D\uDE00"),
        ("a\\b", r"a\\b"),
        ("id", "id"),
    ],
)
def test_properties_are_of_ascii_as_java_has_them(value: str, written: str) -> None:
    assert line_of("name", value) == f"name={written}"
    assert pairs_in(f"#when\nname={written}\n") == {"name": value}


def test_signs_that_java_escapes_without_need_are_read() -> None:
    assert pairs_in(r"a\:b = 10\:20\=\tx\u00e9") == {"a:b": "10:20=\txé"}


def test_a_key_that_is_no_ascii_is_the_same_when_it_is_put_back() -> None:
    identity = dataclasses.replace(IDENTITY, record_key=("编号",))
    text = put_back("hoodie.table.recordkey.fields=other\n", identity)
    assert text.isascii()
    named = pairs_in(text)["hoodie.table.recordkey.fields"]
    assert named == "编号"


def test_identity_survives_json_and_ignores_what_newer_code_adds() -> None:
    data = json.loads(json.dumps({**IDENTITY.to_data(), "later": 1}))
    assert TableIdentity.from_data(data) == IDENTITY


def test_every_write_carries_identity_fence_and_position() -> None:
    for operation in ("bulk_insert", "upsert", "insert_overwrite_table"):
        made = write_options(
            IDENTITY,
            name="t",
            fence=FENCE,
            operation=operation,
            position="{}",  # type: ignore[arg-type]
        )
        assert made["hoodie.bucket.index.num.buckets"] == "4"
        assert made["hoodie.datasource.write.recordkey.field"] == "id"
        assert made["hoodie.table.ordering.fields"] == "_sluice_seq"
        assert made["hoodie.payload.delete.field"] == "_sluice_deleted"
        assert made["hoodie.write.auto.upgrade"] == "false"
        assert made["hoodie.metadata.enable"] == "false"
        assert made["hoodie.write.lock.sluice.token"] == "7"
        assert made["hoodie.write.rolling.metadata.keys"] == "_sluice"
        assert made["_sluice"] == "{}"
        assert made["hoodie.compact.inline"] == "false"
        assert all(isinstance(v, str) for v in made.values())
        assert made["hoodie.compact.schedule.inline"] == "false"
    service = service_options(IDENTITY, name="t", fence=FENCE)
    assert service["hoodie.metadata.enable"] == "false"
    assert service["hoodie.write.lock.provider"] == "io.sluice.lake.FencedLockProvider"
    assert service["hoodie.write.rolling.metadata.keys"] == "_sluice"


@pytest.mark.parametrize(
    ("partition_by", "generator"),
    [((), "Nonpartitioned"), (("d",), "Simple"), (("d", "e"), "Complex")],
)
def test_key_generators(partition_by: tuple[str, ...], generator: str) -> None:
    identity = dataclasses.replace(IDENTITY, partition_by=partition_by)
    made = write_options(
        identity, name="t", fence=FENCE, operation="upsert", position="{}"
    )
    name = made["hoodie.datasource.write.keygenerator.class"]
    assert name == f"org.apache.hudi.keygen.{generator}KeyGenerator"


def test_identity_of_a_spec_uses_lake_names() -> None:
    spec = table(
        ("ID",),
        ("ID", "bigint", "bigint"),
        ("Day", "text", "string"),
        partition_by=("Day",),
    )
    made = identity_for(spec)
    assert (made.record_key, made.partition_by, made.buckets) == (("id",), ("day",), 2)


@pytest.mark.parametrize(
    ("lake_type", "partition"),
    [("date", "d"), ("timestamp", "_sluice_day"), ("timestamp_ntz", "_sluice_day")],
)
def test_a_day_is_a_partition(lake_type: str, partition: str) -> None:
    columns = (("ID", "bigint", "bigint"), ("D", "x", lake_type))
    made = identity_for(table(("ID",), *columns, partition_by=("D",)))
    assert made.partition_by == (partition,)


@pytest.mark.parametrize("lake_type", ["double", "boolean", "decimal(5,2)"])
def test_partitions_that_two_writers_spell_differently_are_refused(
    lake_type: str,
) -> None:
    columns = (("ID", "bigint", "bigint"), ("D", "x", lake_type))
    with pytest.raises(InvalidRequest):
        identity_for(table(("ID",), *columns, partition_by=("D",)))
    with pytest.raises(InvalidRequest):
        identity_for(table(("ID",), *columns, partition_by=("absent",)))


def position(epoch: int, fence: int = 1) -> CommitPosition:
    return CommitPosition(1, "a", "b", epoch, epoch, 'run"名', fence, IDENTITY)


def test_position_survives_its_codec() -> None:
    assert decode_position(encode_position(position(5))) == position(5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v": 2}', '{"v": 1}', "null"])
def test_a_position_of_other_code_is_refused(text: str) -> None:
    with pytest.raises(TerminalError) as caught:
        decode_position(text)
    assert caught.value.code == "unknown_position"


def test_latest_position_wins_by_epoch() -> None:
    assert latest([position(2), position(9), position(4)]) == position(9)
    assert latest([]) is None


NAMES = [
    "20260101000000001.commit.requested",
    "20260101000000001.inflight",
    "20260101000000001_20260101000000100.commit",
    "20260101000000200.deltacommit.requested",
    "20260101000000200.deltacommit.inflight",
    "20260101000000300.compaction.requested",
    "20260101000000300.compaction.inflight",
    "20260101000000300_20260101000000900.commit",
    "20260101000000400.deltacommit.requested",
    "20260101000000400.deltacommit.inflight",
    "20260101000000400_20260101000000500.deltacommit",
    "20260101000000600.compaction.requested",
    "20260101000000700.replacecommit.requested",
    "20260101000000800.rollback.requested",
    "20260101000000800_20260101000000801.rollback",
    ".20260101000000001.inflight.crc",
    "history",
    "archived_2026",
]


def test_a_timeline_from_file_names() -> None:
    made = Timeline.of(reversed(NAMES))
    assert [(i.asked[-3:], i.action, i.state) for i in made.instants] == [
        ("001", "commit", "COMPLETED"),
        ("200", "deltacommit", "INFLIGHT"),
        ("300", "compaction", "COMPLETED"),
        ("400", "deltacommit", "COMPLETED"),
        ("600", "compaction", "REQUESTED"),
        ("700", "replacecommit", "REQUESTED"),
        ("800", "rollback", "COMPLETED"),
    ]
    # by completion: the compaction was asked for before 400 and ended after it
    assert [i.asked[-3:] for i in made.completed_writes] == ["001", "400", "300"]
    assert [i.asked[-3:] for i in made.pending_compactions] == ["600"]
    assert [i.asked[-3:] for i in made.pending_writes] == ["200", "700"]
    compaction = made.find("20260101000000300")
    assert compaction is not None
    assert compaction.file_name == "20260101000000300_20260101000000900.commit"


@pytest.mark.parametrize("name", ["", "x", "123.commit", "20260101000000001", ".crc"])
def test_other_files_are_no_instants(name: str) -> None:
    assert parse_instant(name) is None
