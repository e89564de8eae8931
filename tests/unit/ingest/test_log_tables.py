"""Which tables a PostgreSQL log says enough of, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.sources.postgresql.types import SourceType
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.postgresql.log.parts import Part, Parts, found_empty
from ingest.sources.postgresql.log.tables import (
    Altered,
    Identity,
    SourceColumn,
    SourceTable,
    Unique,
    is_shuffled,
    new_columns,
    problem_of,
    problem_of_key,
    read_as,
)

COLUMNS = (
    ColumnSpec("id", "id", "integer", "int"),
    ColumnSpec("v", "v", "character varying(5)", "string"),
    ColumnSpec("day", "day", "date", "date"),
)
TABLE = TableSpec(7, "public", "t", "db", "t", "/lake/t", "", COLUMNS, ("id",))


WIDE = replace(
    TABLE, columns=(ColumnSpec("id", "id", "bigint", "bigint"), *COLUMNS[1:])
)


def source(
    identity: str = "d", key: str = "id", generated: str = "", **types: str
) -> SourceTable:
    """types: by column; "" = it is not there."""
    found = {"id": "integer", "v": "character varying(5)", "day": "date"} | types
    columns = tuple(
        SourceColumn(name, SourceType(type), identity == "f" or name in key.split())
        for name, type in found.items()
        if type
    )
    return SourceTable(identity, columns, frozenset(generated.split()))


PARTITIONED = replace(TABLE, partition_by=("day",))


@pytest.mark.parametrize(
    ("table", "found", "words"),
    [
        (TABLE, source(), ""),
        (TABLE, source("f"), ""),
        (TABLE, source("i", "id v"), ""),
        (replace(TABLE, row_hash=True, key=()), source(), "has no key"),
        (TABLE, source("n", ""), "REPLICA IDENTITY NOTHING"),
        (TABLE, source(key=""), "would refuse updates and deletes"),
        (TABLE, source("i", "v"), "does not have id of its key"),
        (PARTITIONED, source(), "partitioned in the lake by day"),
        (PARTITIONED, source("f"), ""),
        (PARTITIONED, source("i", "id day"), ""),
        (TABLE, source(v="", generated="v"), "what PostgreSQL generates (v)"),
        (TABLE, source(v=""), "no column v any more"),
        (TABLE, source(more="xml"), ""),
        (TABLE, source(v="text"), ""),
        (TABLE, source(id="text"), "was integer and is text now"),
        # the plan follows, or went ahead
        (TABLE, source(id="bigint"), ""),
        (WIDE, source(id="integer"), ""),
        (TABLE, source(day=""), "no column day any more"),
    ],
)
def test_what_keeps_a_table_from_being_followed(
    table: TableSpec, found: SourceTable, words: str
) -> None:
    problem = problem_of(table, found)
    assert words in problem
    assert bool(words) == bool(problem)


def test_the_remedy_is_a_statement_for_this_table() -> None:
    table = replace(TABLE, source_schema="My App", source_table='a"b')
    said = problem_of(table, source("n", ""))
    assert 'ALTER TABLE "My App"."a""b" REPLICA IDENTITY FULL' in said


def test_new_columns_are_told_in_their_order() -> None:
    assert new_columns(TABLE, source(z="text", a="text")) == ("z", "a")
    assert new_columns(TABLE, source(id="bigint")) == ("id",)


def test_a_column_that_comes_later_is_not_missing() -> None:
    assert problem_of(TABLE, source(day=""), later={"day"}) == ""


def test_rows_have_columns_that_the_plan_will_decide_about() -> None:
    """Those that a discovery shows, in the same type; and none that it left out."""
    table = replace(TABLE, left_out=("out",))
    names = {"n": "numeric(5,1)", "out": "text", "other": "text", "no": "text"}
    now = source(**{**names, "other": "date"})
    hidden = tuple(replace(c, may_read=c.name != "no") for c in now.columns)
    read = read_as(table, source(id="bigint", **names), replace(now, columns=hidden))
    assert [(c.source_name, c.type, c.lossy) for c in read] == [
        ("id", "bigint", ""), ("v", "string", ""), ("day", "date", ""),
        ("n", "decimal(5,1)", "null"),
    ]  # fmt: skip
    assert len(read_as(table, source(**names), None)) == 3


def test_a_table_with_a_column_that_came_with_a_rewrite_is_another() -> None:
    then = Identity(1, {"id": 1}, file=5)
    now = Identity(1, {"id": 1, "v": 2}, file=6)
    assert "v was added" in then.problem_of(TABLE, now)
    assert then.problem_of(TABLE, replace(now, file=5)) == ""
    assert then.problem_of(TABLE, replace(now, columns={"id": 1})) == ""
    renewed = then.renewed(replace(now, file=5), has_more=False)
    assert renewed == Identity(1, {"id": 1, "v": 2}, file=5)
    assert renewed.problem_of(TABLE, replace(now, file=7)) == ""
    assert renewed.renewed(replace(now, file=7), has_more=True).file == 5


@pytest.mark.parametrize(
    ("then", "now", "keeps"),
    [
        ((23, -1), (20, -1), True),
        ((21, -1), (1700, 655366), True),
        ((700, -1), (701, -1), True),
        ((1700, 655366), (1700, 786439), True),  # (10,2) → (12,3)
        ((1700, 655366), (1700, -1), True),
        ((1700, 655366), (1700, 655365), False),  # (10,1)
        ((1700, -1), (1700, 655366), False),
        ((701, -1), (700, -1), False),
        ((25, -1), (25, -1), False),
        ((1043, 14), (1043, 24), False),  # no row is written for that
        ((1114, -1), (1114, 0), False),
    ],
)
def test_rows_that_a_change_of_type_writes_anew_keep_their_values_or_not(
    then: tuple[int, int], now: tuple[int, int], keeps: bool
) -> None:
    before = Identity(1, {"v": 2}, file=5, altered={"v": Altered(*then, 7)})
    after = replace(before, file=6, altered={"v": Altered(*now, 8)})
    assert bool(before.problem_of(TABLE, after)) == (not keeps)
    # nor without such rows, or without such a change
    assert before.problem_of(TABLE, replace(after, file=5)) == ""
    assert after.problem_of(TABLE, replace(after, file=7)) == ""


def test_a_key_that_another_index_keeps_unique_is_not_the_same() -> None:
    key = frozenset({"id"})
    one = Unique(7, "t_pkey", 17, is_immediate=True, is_rebuilt=True, columns=key)
    then = Identity.of(TABLE, 1, {"id": 1}, {"id": Altered(23, -1, 3)}, (one,))

    def problem(*uniques: Unique, type: int = 23) -> str:
        altered = {"id": Altered(type, -1, 4)}
        now = Identity.of(TABLE, 1, {"id": 1}, altered, uniques)
        return then.problem_of(TABLE, now)

    again = replace(one, number=8, constraint=18)
    assert problem(replace(one, number=8)) == ""  # REINDEX CONCURRENTLY
    assert problem(replace(one, constraint=18), again) == ""
    assert problem(again, type=20) == ""
    # by itself, and not as the type of its column was altered
    assert "dropped or created" in problem(replace(again, is_rebuilt=False), type=20)
    assert "dropped or created again" in problem(again)
    assert "dropped or created again" in problem(replace(one, is_immediate=False))
    assert "dropped or created again" in problem(replace(one, columns=frozenset("v")))
    assert problem_of_key(TABLE, (one, replace(again, is_immediate=False))) == ""
    assert "DEFERRABLE" in problem_of_key(TABLE, (replace(one, is_immediate=False),))
    assert problem_of_key(TABLE, ()) == ""


@pytest.mark.parametrize(
    ("names", "dropped", "is_so"),
    [
        ("id v w", (), False),
        ("id w", (), False),
        ("id w v", (), True),
        # what had the name of the last one then is behind that
        ("id v x w", (), True),
        ("id v x w", (1,), False),
        ("id v w x", (), False),
        ("id x v", (), True),
    ],
)
def test_columns_that_had_other_names(
    names: str, dropped: tuple[int, ...], *, is_so: bool
) -> None:
    numbers = {"id": 2, "v": 3, "w": 4}
    assert is_shuffled(names.split(), numbers, dropped) == is_so


def test_a_table_that_may_have_been_unlogged() -> None:
    members = (("theirs", "p7/8"),)
    altered = {"v": Altered(23, -1, 3)}
    then = Identity(1, {"v": 1}, members, file=5, since=9, altered=altered)
    now = replace(then, file=6, since=20)
    assert then.may_be_unlogged(now, 15)
    assert then.renewed(now, has_more=True) == then
    assert then.renewed(now, has_more=False) == now
    assert then.renewed(replace(now, file=5), has_more=False) == then
    assert not then.may_be_unlogged(replace(now, file=5), 15)
    assert not then.may_be_unlogged(replace(now, members=(("ours", "r7/8"),)), 15)
    emptied = replace(then, parts=then.parts.noted([(0, 15, 0)]))
    assert not emptied.may_be_unlogged(now, 15)
    assert emptied.may_be_unlogged(now, 16)
    typed = replace(now, altered={"v": Altered(20, -1, 15)})
    assert not then.may_be_unlogged(typed, 15)
    assert then.may_be_unlogged(typed, 16)


def test_a_table_whose_partitions_came_or_went_with_rows_is_another() -> None:
    parts = Parts({"7/1": Part(70, 3), "8/1": Part(80, 4)})
    then = Identity(1, {"id": 1}, parts=parts)

    def problem(said: Identity = then, **now: Part) -> str:
        found = {key.replace("_", "/")[1:]: part for key, part in now.items()}
        parts = Parts({**then.parts.all, **found})
        return said.problem_of(TABLE, replace(then, parts=parts))

    assert problem() == ""
    assert problem(p9_2=Part(90, 5), p6_2=Part(0, 5)) == ""
    assert "attached" in problem(p9_2=Part(90, 5, "filled"))
    assert "attached" in problem(p9_2=Part(90, 5, "unknown"))
    gone = replace(then, parts=Parts({"7/1": Part(70, 3), "8/3": Part(8, 6)}))
    assert "dropped or detached" in then.problem_of(TABLE, gone)
    assert then.renewed(gone, has_more=False).parts == gone.parts
    # the log has rows of one that no look has found
    used = replace(then, parts=parts.noted([(7, 2, 1), (9, 2, 1)]))
    assert "dropped or detached" in problem(used)
    assert problem(used, p9_2=Part(9, 5)) == ""
    assert "dropped or detached" in problem(then.joined(used))
    assert Identity.decode(used.encode()) == used


def test_partitions_in_other_files_wait_for_the_truncate_of_their_table() -> None:
    parts = Parts({"7/1": Part(70, 3), "8/1": Part(80, 4), "6/1": Part(0, 3)})
    now = {**parts.all, "7/1": Part(71, 9), "5/2": Part(50, 9), "4/2": Part(4, 9)}
    assert parts.rewritten(parts.all) == frozenset()
    assert parts.rewritten(now) == {("7/1", 9), ("5/2", 9)}
    kept = parts.renewed(now)
    assert kept.all == {
        **parts.all,
        "5/2": Part(5, 9),
        "4/2": Part(4, 9),
    }
    assert kept.rewritten(now) == {("7/1", 9), ("5/2", 9)}
    emptied = kept.noted([(0, 9, 0)])
    assert emptied.rewritten(now) == frozenset()
    assert emptied.renewed(now).all == now
    many = emptied.noted([(0, xid, 0) for xid in range(20, 30)])
    assert many.emptied == tuple(range(22, 30))


def test_partitions_that_who_made_their_file_may_have_emptied_again() -> None:
    """The rows tell, unless the log describes the partition between two of them."""
    now = {"7/9": Part(7, 9), "8/1": Part(80, 9), "6/1": Part(6, 1), "5/10": Part(5, 9)}
    rows = [(number, 9, 1) for number in (7, 8, 6, 5)]
    parts = Parts(now).noted(rows)
    assert [(one.number, one.xids) for one in parts.doubtful(now)] == [
        (7, (9, 9)), (5, (9, 10)),
    ]  # fmt: skip
    assert parts.noted([(0, 9, 0)]).doubtful(now) == []
    emptied = parts.noted([(0, 9, 0), *rows, (8, 9, 2)])
    # what is read again says the same
    assert emptied == emptied.noted([(0, 9, 0), *rows, (8, 9, 2)])
    assert [(one.number, one.is_sure) for one in emptied.doubtful(now)] == [
        (7, False), (8, True), (5, False),
    ]  # fmt: skip
    assert parts.noted([(7, 9, 2), (7, 9, 1)]).doubtful(now)[0].is_sure
    assert Parts(now).noted([(7, 10, 1), (8, 10, 1)]).doubtful(now) == []


def test_what_a_partition_had_is_found_out_of_new_ones_only() -> None:
    now = {"7/1": Part(70, 3, "unknown"), "8/1": Part(80, 4, "filled")}
    assert Parts().unknown(now) == [7]
    assert Parts(now).unknown(now) == []
    assert found_empty(now, {7, 8}) == {**now, "7/1": Part(70, 3)}
    assert found_empty(now, set()) == now


def test_columns_are_read_as_they_are_now() -> None:
    # what the log prints of a character has blanks that the lake's text has not
    read = read_as(TABLE, source(v="character(5)"), None)
    assert [column.source_type for column in read] == [
        "integer",
        "character(5)",
        "date",
    ]


def test_a_row_is_in_a_place_of_the_lake_by_key_and_partition() -> None:
    assert replace(PARTITIONED, key=("id", "day")).identifying == ("id", "day")
    assert PARTITIONED.identifying == ("id", "day")


@pytest.mark.parametrize(
    ("oid", "numbers", "words"),
    [
        (5, {"id": 1, "v": 2, "day": 3, "more": 9}, ""),
        (6, {"id": 1, "v": 2, "day": 3}, "was dropped and made again"),
        (5, {"id": 1, "v": 4, "day": 5}, "v, day was dropped at the source and added"),
        (5, {"id": 1, "v": 2}, ""),  # which `problem_of` names
    ],
)
def test_what_makes_it_another_table(
    oid: int, numbers: dict[str, int], words: str
) -> None:
    first = Identity.of(TABLE, 5, {"id": 1, "v": 2, "day": 3, "more": 4})
    kept = Identity.decode(first.encode())
    assert kept == first
    problem = kept.problem_of(TABLE, Identity.of(TABLE, oid, numbers))
    assert (words in problem, bool(problem)) == (True, bool(words))
    # of a column that was planned since, nothing is known
    small = replace(TABLE, columns=COLUMNS[:1])
    assert Identity.of(small, 5, {"id": 1}).problem_of(TABLE, first) == ""
