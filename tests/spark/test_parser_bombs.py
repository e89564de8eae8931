"""Texts that kept Spark's parser busy for minutes, or ended its stack: each is refused
with the limit and what was found, and the engine goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway import faults
from tests.spark.engine_bench import Client, EngineBench

COMPLEX, SYNTAX = "54001", "42601"


@pytest.fixture(scope="module")
def ann(bench: EngineBench) -> Iterator[Client]:
    bench.policy("ann", select=("shop.orders",))
    client = bench.connect("ann")
    yield client
    client.close()


def nested(opening: str, closing: str, *, times: int, before: str = "select ") -> str:
    return before + opening * times + "1" + closing * times


def doubled(parts: int) -> str:
    """Each part of WITH reads the one before it twice."""
    more = "".join(
        f", t{n} as (select a.x from t{n - 1} a, T{n - 1} b)" for n in range(1, parts)
    )
    return f"with t0 as (select 1 as x){more} select count(*) from t{parts - 1}"


def columns(count: int) -> str:
    return ", ".join(f"id + {n}" for n in range(count))


PARTED = "range(0, 100000000, 1, 200)"  # too large to be sent to each task
GROUPED = "select count(*) from range(1) group by "
BOMBS = [
    (nested("/* ", " */ ", times=5_000, before="select 1 "), "comments 33 deep"),
    ("select 1 " + "/*" * 100_000, "comments 33 deep"),
    ("/*" + "/**/" * 1_001 + "*/ select 1", "1001 comments in others"),
    (nested("(", ")", times=20_000), "brackets and CASE 201 deep"),
    (nested("case when 1 then ", " end", times=3_000), "201 deep"),
    (nested("array(", ")", times=190) + (", " + nested("(", ")", times=190, before="")),
     "levels in all"),
    (nested("not ", "", times=20_000), "201 NOT in a row"),
    (nested("- ", "", times=20_000), "201 prefix operators"),
    (f"select transform(array(1), {'x -> ' * 501} 1)", "501 lambda arrows"),
    (f"select 1 from t{' lateral /**/ view explode(a) as b' * 1_001}",
     "1001 LATERAL VIEWs"),
    ("select 1e100000000BD", "9 digits"),
    ("select 1.5E+10000", "5 digits"),
    ("select " + "1" * 100_000, "100000 characters; at most 255"),
    (f"select 1 as `{'a' * 1_000_000}`", "1000000 characters; at most 255"),
    (f"select 1 as {'a' * 256}", "256 characters; at most 255"),
    (f"select '{chr(92)}'{chr(92)}'" + f"{chr(92)}'" * 400_000 + "'", "Escapes times"),
    ("select '" + f"{chr(92)}'" * 1_000, "string that begins at character 8"),
    ("select `a", "name in back-quotes that begins at character 8"),
    ("select 1 /* never", "comment that begins at character 10"),
    (f"select from_json('1', 'a int {'/* ' * 5_000}')", "comments 33 deep"),
    ("select from_json('1', repeat('/*', 5000))", "must be written as a string"),
    (doubled(40), "read 549755813888 relations; at most 1000"),
    (f"select exists({doubled(11)})", "read 1024 relations; at most 1000"),
    (f"explain {doubled(12)}", "read 2048 relations"),
    (f"{GROUPED} cube({columns(24)})", "16777216 sets of columns; at most 4096"),
    (f"{GROUPED} grouping sets(CUBE ({columns(24)}), (id))", "16777216 sets of"),
    (f"{GROUPED} grouping sets(rollup(id{', id' * 5_000}))", "ROLLUPs' columns, squared"),
    (f"{GROUPED} {columns(24)} with cube", "GROUP BY has more sets of columns"),
    (GROUPED + ", ".join(f"rollup({columns(7)})" for _ in range(5)), "GROUP BY has more"),
    ("select count(*) from range(0, 1000000000, 1, 100000000)", "100000000 parts; at most"),
    ("select /*+ repartition(1000) */ id from range(10)", "asks for 1000 parts"),
    ("select /*+ rebalance(9999999) */ id from range(10)", "asks for 9999999 parts"),
    (" union all ".join(["select id from range(0, 1, 1, 999)"] * 11), "as 10989 tasks"),
    (f"select count(*) from {PARTED} a, {PARTED} b, {PARTED} c", "as 8000000 tasks"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "said"), BOMBS, ids=[one[1] for one in BOMBS])
def test_a_bomb_is_refused_with_its_limit(
    statement: str, said: str, ann: Client
) -> None:
    outcome = ann.run(statement)
    fault = faults.clean(outcome.error, sql_state=outcome.sql_state)
    assert said in fault.message, fault.message[:300]
    assert fault.sql_state in {COMPLEX, SYNTAX, "42501"}
    assert ann.rows("select 1") == [(1,)]


UNIONS = f"with a as (select 1 x) {' union all '.join(['select x from a'] * 200)}"


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(doubled(7), id="parts"),
        pytest.param(UNIONS, id="unions", marks=pytest.mark.long),
        pytest.param(f"{GROUPED} cube({columns(5)}), rollup({columns(3)})", id="sets"),
        pytest.param(
            "select /*+ shuffle_replicate_nl(a) */ count(*)"
            " from shop.orders a cross join shop.orders b",
            id="product",
        ),
        pytest.param(
            "select /*+ merge(a) */ a.id from range(0, 9, 1, 200) a"
            " join range(0, 9, 1, 200) b on a.id = b.id",
            id="join",
        ),
    ],
)
def test_what_is_large_and_no_bomb_is_planned(statement: str, ann: Client) -> None:
    assert ann.rows(statement)


@pytest.mark.parametrize(
    "statement",
    ["select 1" + " + 1" * 50_000, "select 1" + " union all select 1" * 5_000],
    ids=["operators", "unions"],
)
def test_the_end_of_the_stack_is_a_sentence(statement: str, ann: Client) -> None:
    outcome = ann.run(statement)
    fault = faults.clean(outcome.error, sql_state=outcome.sql_state)
    assert fault.sql_state == COMPLEX
    assert "nested too deeply" in fault.message
    assert "StackOverflow" not in fault.message
    assert ann.rows("select 1") == [(1,)]


def test_long_texts_of_users_are_scrubbed_in_linear_time(ann: Client) -> None:
    plan = ann.rows(f"explain select '{'a.' * 200_000}' as x")
    assert "Project" in plan[0][0]
    outcome = ann.run("select raise_error(repeat('a.', 300000))")
    assert outcome.is_refused
    assert len(faults.clean(outcome.error).message) <= faults.MAX_TEXT


def test_what_people_write_is_let_through(ann: Client) -> None:
    written = (
        "select /* a /* b */ */ 'it\\'s', r'\\', \"`\", `x y`, 1.5e-3 -- c\n"
        " from (select 'y' as `x y`) where not not true /* end */"
    )
    assert len(ann.rows(written)) == 1
    deep = nested("(", ")", times=60) + nested(" + (", ")", times=60, before="")
    assert ann.rows(deep) == [(2,)]
    wide = "select count(*) from values " + ", ".join(f"({n})" for n in range(5_000))
    assert ann.rows(wide) == [(5_000,)]
    assert ann.rows("select from_json('{\"a\":1}', 'a int').a") == [(1,)]
    assert ann.rows("select from_json('{\"a\":1}', schema_of_json('{\"a\":1}')).a") == [
        (1,)
    ]
