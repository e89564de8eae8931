"""Planning as tables of cases: facts and choices in, decisions with reasons out."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.schema.types import Column, TableSchema
from core.errors import InvalidRequest
from ingest.pipelines.plan_overrides import chosen_in
from ingest.planning.facts import Choices, Conditions, TableFacts, Target
from ingest.planning.patterns import select
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    LoadSnapshot,
    plan_from_json,
    plan_to_json,
)
from ingest.planning.propose import WIDE_ROW_BYTES, lake_bytes, propose_table

MB = 1024 * 1024


def column(name: str, kind: str = "bigint", *, nullable: bool = True, key: int = 0):
    source = {"timestamp": "timestamp with time zone"}.get(kind, kind or "xml")
    return Column(name, name, source, kind, nullable=nullable, key=key)


ID = column("id", nullable=False, key=1)
PLAIN_ID = column("id", nullable=False)
UPDATED = column("updated_at", "timestamp", nullable=False)


def facts(*columns: Column, **more) -> TableFacts:
    given_ = {"estimated_rows": 1000, "estimated_bytes": 100_000, "fingerprint": "f"}
    return TableFacts(
        "public",
        "orders",
        TableSchema(columns),
        **{"source_kind": "postgresql", **given_, **more},
    )


def plan(
    table: TableFacts, choices: Choices | None = None, *, capture="timestamp", **more
):
    return propose_table(
        table,
        choices or Choices(),
        Target("shop", "orders", "/lake/shop/orders", **more.pop("target", {})),
        Conditions(capture=capture, **more),
    )


@pytest.mark.parametrize(
    ("table", "choices", "key", "reason"),
    [
        (facts(ID, UPDATED), Choices(), ["id"], "primary key"),
        (
            facts(PLAIN_ID, UPDATED, unique_indexes=(("id",),)),
            Choices(),
            ["id"],
            "unique index",
        ),
        (
            facts(column("id"), UPDATED, unique_indexes=(("id",),)),
            Choices(),
            None,
            "('record_key')",
        ),
        (
            facts(
                PLAIN_ID,
                column("b", nullable=False),
                UPDATED,
                unique_indexes=(("id", "b"), ("b",)),
            ),
            Choices(),
            ["b"],
            "narrowest",
        ),
        (facts(PLAIN_ID, UPDATED), Choices(record_key=("id",)), ["id"], "chosen"),
        (facts(column("id"), UPDATED), Choices(record_key=("id",)), ["id"], "NULL"),
        (
            facts(column("id", "", nullable=False, key=1), UPDATED),
            Choices(),
            None,
            "no primary",
        ),
    ],
)
def test_record_key(table, choices, key, reason) -> None:
    proposal = plan(table, choices).proposals["record_key"]
    assert proposal.value == key
    assert reason in proposal.reason


def test_a_key_with_a_hidden_column_is_not_called_absent() -> None:
    table = facts(
        PLAIN_ID, UPDATED, hidden=("a", "b"), hidden_key=("id", "b"), username="u"
    )
    key = plan(table).proposals["record_key"]
    assert key.value is None
    assert 'GRANT SELECT ("b") ON "public"."orders" TO "u";' in key.reason
    assert "no primary key" not in key.reason
    assert plan(table, capture="snapshot").proposals["record_key"].choices == (
        "row_hash",
    )
    chosen = plan(table, Choices(record_key=("id",)))
    assert not chosen.blocked


def test_keys_that_the_source_does_not_show_are_not_called_absent() -> None:
    table = facts(
        PLAIN_ID, UPDATED, source_kind="mariadb", hides_indexes=True, username="u"
    )
    made = plan(table)
    key = made.proposals["record_key"]
    assert key.value is None
    grant = "GRANT REFERENCES ON `public`.`orders` TO 'u'@'%';"
    assert grant in key.reason
    assert any(grant in text for text in made.warnings)


def test_hidden_columns_are_told_and_may_be_left_out() -> None:
    table = facts(ID, UPDATED, hidden=("secret",), username="u")
    told = [text for text in plan(table).warnings if "secret" in text]
    assert len(told) == 1
    assert 'GRANT SELECT ("secret") ON "public"."orders" TO "u";' in told[0]

    left_out = plan(table, Choices(exclude_columns=("secret",)))
    assert left_out.excluded == ("secret",)  # a later grant does not add it
    assert not [text for text in left_out.warnings if "secret" in text]
    with pytest.raises(InvalidRequest) as caught:
        plan(table, Choices(partition_by=("secret",)))
    assert caught.value.code == "column_hidden"
    assert "GRANT SELECT" in caught.value.hint


@pytest.mark.parametrize(
    ("columns", "indexed", "cursor"),
    [
        ([UPDATED], [], "updated_at"),
        ([column("modified", "timestamp"), UPDATED], [], "updated_at"),
        ([column("created_at", "timestamp", nullable=False)], ["created_at"], None),
        ([column("birthday", "timestamp_ntz")], [], None),
        ([column("mtime", "timestamp_ntz")], [], "mtime"),
        ([column("updated_at", "bigint")], [], None),
        (
            [column("date_modified", "timestamp"), column("last_updated", "timestamp")],
            ["date_modified"],
            "last_updated",
        ),
        ([column("Row_Updated_On", "timestamp", nullable=False)], [], "Row_Updated_On"),
    ],
)
def test_cursor(columns, indexed, cursor) -> None:
    made = plan(facts(ID, *columns, indexed=frozenset(indexed)))
    assert made.proposals["cursor"].value == cursor
    assert made.proposals["cursor"].reason
    assert bool(made.blocked) == (cursor is None)


@pytest.mark.parametrize("kind", ["date", "bigint", "string"])
def test_a_cursor_that_is_no_timestamp_is_said_to_be_none(kind: str) -> None:
    made = plan(facts(ID, column("updated_at", kind)))
    assert "a cursor must be a timestamp" in made.blocked
    assert f"'updated_at' ({kind})" in made.blocked


@pytest.mark.parametrize(
    ("kind", "delay", "is_said"),
    [
        ("timestamp_ntz", 19_800, True),
        ("timestamp_ntz", 0, False),
        ("timestamp", 3600, False),
    ],
)
def test_a_cursor_without_zone_of_a_server_off_utc_is_said_to_be_late(
    kind: str, delay: int, is_said: bool
) -> None:
    warnings = plan(facts(ID, column("updated_at", kind), zone_delay=delay)).warnings
    late = "'updated_at' has no time zone and the server is not on UTC: rows arrive"
    assert any(text.startswith(late) for text in warnings) is is_said
    assert any(text.endswith("up to 5.5 h later") for text in warnings) is is_said


def test_what_can_be_missed_is_said() -> None:
    made = plan(
        facts(ID, column("updated_at", "timestamp"), sees_all_transactions=False)
    )
    said = " ".join(made.step(ApplyChanges).missed)
    for part in ("deleted rows", "NULL", "pg_read_all_stats", "updated_at"):
        assert part in said
    assert set(made.step(ApplyChanges).missed) <= set(made.warnings)


@pytest.mark.parametrize(
    ("rows", "size", "buckets"),
    [
        (0, 0, 1),
        (10, 100, 1),
        (1_000_000, 400 * MB, 2),
        (10_000_000, 2_000 * MB, 9),
        (100_000_000, 64_000 * MB, 259),
        # 4 MB a row: the whole of a file is in memory while it is written
        (300, 1_200 * MB, 19),
        (30_000, 120_000 * MB, 469),
    ],
)
def test_buckets(rows, size, buckets) -> None:
    made = plan(facts(ID, UPDATED, estimated_rows=rows, estimated_bytes=size))
    assert made.proposals["buckets"].value == buckets


@given(st.integers(0, 10**11), st.integers(0, 10**13))
def test_a_file_group_stays_in_its_bounds_and_256_is_never_taken(rows, size) -> None:
    table = facts(ID, UPDATED, estimated_rows=rows, estimated_bytes=size)
    count = plan(table).proposals["buckets"].value
    assert count >= 1
    assert count != 256
    each = lake_bytes(table) / count
    assert each <= 129 * MB
    least = 15 if lake_bytes(table) > rows * WIDE_ROW_BYTES > 0 else 63
    assert count == 1 or each >= least * MB


@pytest.mark.parametrize(
    ("table", "choices", "conditions", "why"),
    [
        (facts(ID, column("x", ""), UPDATED), Choices(), {}, "no type for: x"),
        (facts(ID, UPDATED), Choices(record_key="row_hash"), {}, "whole-row hash"),
        (facts(ID, UPDATED), Choices(), {"free_bytes": 10}, "free"),
        (facts(ID), Choices(), {}, "sets ('cursor')"),
        (facts(), Choices(), {}, "no column"),
    ],
)
def test_what_blocks(table, choices, conditions, why) -> None:
    made = plan(table, choices, **conditions)
    assert why in made.blocked
    assert made.steps == ()


def test_an_unsupported_column_can_be_left_out() -> None:
    made = plan(facts(ID, column("x", ""), UPDATED), Choices(exclude_columns=("x",)))
    assert made.blocked == ""
    names = [c.source_name for c in made.step(CreateTable).columns]
    assert names == ["id", "updated_at"]


@pytest.mark.parametrize(
    ("partition_by", "capture", "is_said"),
    [
        (("area",), "timestamp", True),
        (("id", "area"), "timestamp", True),
        (("id",), "timestamp", False),
        ((), "timestamp", False),
        (("area",), "snapshot", False),
    ],
)
def test_rows_that_would_change_their_partition_are_told(
    partition_by: tuple[str, ...], capture: str, is_said: bool
) -> None:
    table = facts(ID, column("area", "string"), UPDATED)
    made = plan(table, Choices(partition_by=partition_by), capture=capture)
    told = [w for w in made.warnings if ":deduplicate" in w and "area" in w]
    assert bool(told) == is_said
    if capture == "timestamp":
        assert set(told) <= set(made.step(ApplyChanges).missed)


@pytest.mark.parametrize(
    ("partition_by", "rows", "is_refused"),
    [
        (("id",), 10_001, True),
        (("id",), 10_000, False),
        (("area", "id"), 1_000_000, True),
        (("area",), 1_000_000, False),
        ((), 1_000_000, False),
    ],
)
def test_a_partition_for_each_row_is_refused(
    partition_by: tuple[str, ...], rows: int, is_refused: bool
) -> None:
    table = facts(ID, column("area", "string"), UPDATED, estimated_rows=rows)
    made = plan(table, Choices(partition_by=partition_by))
    assert ("partition of its own" in made.blocked) == is_refused
    is_said = any("more than 10,000" in w for w in made.warnings)
    assert is_said == bool(partition_by)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([column("flag", "boolean")], "column 'flag' of public.orders is boolean"),
        ([column("n", "decimal(5,2)")], "column 'n' of public.orders is decimal(5,2)"),
        ([column("b", "binary")], "is binary"),
        ([column("f", "double")], "is double"),
        ([column("a", "array<int>")], "is array<int>"),
        ([column("t", "timestamp"), column("u", "timestamp_ntz")], "the day of one"),
    ],
)
def test_what_cannot_be_a_partition_is_refused_by_the_plan(
    columns: list[Column], why: str
) -> None:
    chosen = Choices(partition_by=tuple(c.source_name for c in columns))
    with pytest.raises(InvalidRequest) as caught:
        plan(facts(ID, *columns, UPDATED), chosen)
    assert caught.value.code == "bad_partition"
    assert caught.value.facts == {"field": "partition_by", "table": "public.orders"}
    assert why in caught.value.message


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_table_is_planned_by_the_day_of_a_timestamp(kind: str) -> None:
    table = facts(ID, column("born", kind), UPDATED, unique_indexes=(("born",),))
    made = plan(
        dataclasses.replace(table, estimated_rows=1_000_000),
        Choices(partition_by=("born",)),
    )
    assert made.blocked == ""
    assert made.step(CreateTable).partition_by == ("born",)
    assert any("_sluice_day" in w and "the day of born" in w for w in made.warnings)


TILL = dataclasses.replace(column("valid_to", "date", nullable=False), key=2)
NUMBERS = dataclasses.replace(
    column("numbers", "array<int>", nullable=False), key=2, source_type="integer[]"
)


@pytest.mark.parametrize(
    ("second", "values"),
    [(TILL, "infinity"), (NUMBERS, "several dimensions"), (PLAIN_ID, "")],
)
def test_values_that_no_key_can_have_are_said_before(
    second: Column, values: str
) -> None:
    first = dataclasses.replace(ID, source_name="a", name="a")
    made = plan(facts(first, second, UPDATED))
    told = [w for w in made.warnings if "stops the load" in w]
    assert bool(told) == bool(values)
    assert all(values in w and second.source_name in w for w in told)


@pytest.mark.parametrize("second", [TILL, NUMBERS])
def test_a_column_is_carried_as_text_by_choice(second: Column) -> None:
    name = second.source_name
    made = plan(
        facts(ID, second, UPDATED),
        Choices(as_text=(name,)),
        target={"lossy": {name: "null"}},
    )
    assert made.blocked == ""
    assert not any("stops the load" in w or "become NULL" in w for w in made.warnings)
    create = made.step(CreateTable)
    assert {c.source_name: (c.type, c.lossy) for c in create.columns}[name] == (
        "string",
        "",
    )
    assert create.record_key == ("id", name)
    stored = plan_from_json(plan_to_json(made))
    assert stored == made
    assert chosen_in(plan_to_json(made)).as_text == (name,)


@pytest.mark.parametrize(
    ("choices", "code"),
    [
        (Choices(as_text=("id",)), "invalid_as_text"),
        (Choices(as_text=("nope",)), "unknown_column"),
        (Choices(as_text=("updated_at",), cursor="updated_at"), "invalid_cursor"),
    ],
)
def test_what_cannot_be_carried_as_text_is_refused(choices: Choices, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(facts(ID, UPDATED), choices)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("source_type", "is_said"),
    [
        ("text", True),
        ("character varying(63)", True),
        ("character varying(20)", False),
        ("uuid", False),
    ],
)
def test_the_longest_text_of_a_partition_is_said(
    source_type: str, is_said: bool
) -> None:
    area = dataclasses.replace(column("area", "string"), source_type=source_type)
    made = plan(facts(ID, area, UPDATED), Choices(partition_by=("area",)))
    assert any("more than 250 bytes" in w for w in made.warnings) == is_said


@pytest.mark.parametrize(
    ("capture", "offered"),
    [("snapshot", "or a hash of each row"), ("timestamp", "or load it once")],
)
def test_a_table_without_a_key_is_offered_what_is_accepted(capture, offered) -> None:
    made = plan(facts(PLAIN_ID, UPDATED), capture=capture)
    assert offered in made.blocked
    choices = made.proposals["record_key"].choices
    for each in choices:
        accepted = plan(
            facts(PLAIN_ID, UPDATED), Choices(record_key=each), capture=capture
        )
        assert accepted.blocked == ""
    assert bool(choices) == (capture == "snapshot")


def test_row_hash_with_a_snapshot_says_what_it_does() -> None:
    made = plan(facts(PLAIN_ID), Choices(record_key="row_hash"), capture="snapshot")
    assert made.step(CreateTable).row_hash
    assert any("duplicate count" in warning for warning in made.warnings)
    assert made.step(ApplyChanges) is None


@pytest.mark.parametrize(
    ("choices", "code", "field"),
    [
        (Choices(cursor="nope"), "unknown_column", "cursor"),
        (Choices(cursor="id"), "invalid_cursor", "cursor"),
        (Choices(record_key=("id", "id")), "invalid_record_key", "record_key"),
        (Choices(partition_by=("x",)), "unknown_column", "partition_by"),
        (Choices(buckets=0), "invalid_buckets", "buckets"),
        (
            Choices(record_key=("id",), exclude_columns=("id",)),
            "column_excluded",
            "record_key",
        ),
    ],
)
def test_impossible_choices_are_refused_by_field(choices, code, field) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(facts(ID, UPDATED), choices)
    assert caught.value.code == code
    assert caught.value.facts["field"] == field


def test_lossy_and_renamed_columns_are_named() -> None:
    wide = dataclasses.replace(column("Amount", "string"), source_type="numeric")
    made = plan(
        facts(ID, wide, UPDATED),
        target={
            "column_names": {"Amount": "amount"},
            "lossy": {"Amount": "string", "updated_at": "null"},
        },
    )
    said = " ".join(made.warnings)
    assert "Amount → amount" in said
    assert "synced as text" in said
    assert "become NULL" in said


def test_warnings_that_are_alike_are_one() -> None:
    wide = [
        dataclasses.replace(column(f"n{n}", "string"), source_type="numeric")
        for n in range(99)
    ]
    lossy = {c.source_name: "string" for c in wide}
    made = plan(facts(ID, UPDATED, *wide), target={"lossy": lossy})
    (said,) = (w for w in made.warnings if "synced as text" in w)
    assert said.startswith("99 columns, 'n0' (numeric), ")
    assert "and 94 more" in said


def test_a_plan_survives_its_json() -> None:
    made = plan(facts(ID, UPDATED), every_seconds=5, free_bytes=10**12)
    stored = json.loads(json.dumps(plan_to_json(made)))
    assert plan_to_json(plan_from_json(stored)) == stored
    assert plan_from_json(stored).step(LoadSnapshot) == made.step(LoadSnapshot)
    assert all(step["summary"] for step in stored["steps"])


def test_an_older_plan_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="propose it again"):
        plan_from_json({"v": 0})


@pytest.mark.parametrize("kind", ["CreateTable", "LoadSnapshot", "ApplyChanges"])
def test_what_is_not_known_of_a_step_is_refused_by_name(kind: str) -> None:
    stored = plan_to_json(plan(facts(ID, UPDATED)))
    step = next(step for step in stored["steps"] if step["step"] == kind)
    step["compression"] = "zstd"
    with pytest.raises(InvalidRequest, match="unknown field `compression`"):
        plan_from_json(stored)


def test_a_column_and_a_step_that_are_not_known_are_refused_by_name() -> None:
    stored = plan_to_json(plan(facts(ID, UPDATED)))
    stored["steps"][0]["columns"][0]["masked"] = True
    with pytest.raises(InvalidRequest, match="unknown field `masked`"):
        plan_from_json(stored)
    stored["steps"][0] = {"step": "Paint"}
    with pytest.raises(InvalidRequest, match="'Paint'"):
        plan_from_json(stored)


@pytest.mark.parametrize("steps", [None, [1], "no steps"])
def test_a_plan_of_another_shape_is_refused(steps: object) -> None:
    stored = plan_to_json(plan(facts(ID, UPDATED))) | {"steps": steps}
    with pytest.raises(InvalidRequest, match="malformed stored plan"):
        plan_from_json(stored)


def test_every_proposal_has_a_reason() -> None:
    for capture in ("timestamp", "snapshot"):
        made = plan(facts(ID, UPDATED), capture=capture)
        assert all(p.reason for p in made.proposals.values())


def matches(pattern: str, database: str, table: str) -> bool:
    return bool(select([(database, table)], include=(pattern,)).matched)


@pytest.mark.parametrize(
    ("pattern", "database", "table", "expected"),
    [
        ("public.orders", "public", "orders", True),
        ("public.*", "public", "orders", True),
        ("public.*", "publicity", "orders", False),
        ("public.ord*", "public", "orders", True),
        ("*", "a", "b", True),
        ("a.b.c", "a", "b.c", True),
        ("a.b.c", "a.b", "c", True),
        ("public.o?ders", "public", "orders", False),
        ("public.[o]rders", "public", "orders", False),
        ("public.odd*name", "public", "odd*name", True),
        ("Public.orders", "public", "orders", False),
        ("a.*", "a.b", "c", True),
        ("*.*", "a", "b", True),
        ("*.ord*", "a.b", "order\ns", True),
        ("*b*", "a", "b", True),
        ("*b*b*", "a", "b", False),
    ],
)
def test_patterns(pattern, database, table, expected) -> None:
    assert matches(pattern, database, table) is expected


def test_selection_names_the_patterns_that_mean_nothing() -> None:
    names = [("a", "x"), ("a", "y"), ("b", "z")]
    found = select(names, include=("a.*", "c.*"), exclude=("a.y",))
    assert found.matched == (0,)
    assert found.unmatched == (1,)


def test_patterns_that_are_no_wild_ones_are_looked_up() -> None:
    """A hundred thousand of them against as many tables: not ten thousand million."""
    names = [("a", f"t{n}") for n in range(50_000)]
    include = (*(f"d{n}.*" for n in range(100_000)), "a.*")
    assert len(select(names, include=include).matched) == 50_000


def test_a_wild_pattern_is_read_once_per_part() -> None:
    worst = "*" + "a*" * 240 + "b"
    assert not matches(worst, "a", "a" * 60_000)


@pytest.mark.parametrize(
    ("kind", "capture", "is_said"),
    [
        ("postgresql", "snapshot", False),
        ("mariadb", "snapshot", True),
        ("mariadb", "timestamp", False),
    ],
)
def test_a_load_of_several_moments_is_said_before_it_runs(
    kind: str, capture: str, is_said: bool
) -> None:
    table = facts(ID, UPDATED, source_kind=kind)
    made = plan(table, capture=capture)
    said = any("at its own moment" in warning for warning in made.warnings)
    assert said == is_said
