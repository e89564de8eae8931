"""Plans as pictures, from what EXPLAIN of this engine answers with."""

from __future__ import annotations

import pytest

from frontend.reading.query_plan import (
    HIGH,
    MOST_BOXES,
    MOST_DETAILS,
    MOST_OPERATORS,
    WIDE,
    Node,
    picture_of,
    plan_of,
    tables_of,
)

FORMATTED = """== Physical Plan ==
AdaptiveSparkPlan isFinalPlan=false
+- HashAggregate (6)
   +- Exchange (5)
      +- * BroadcastHashJoin Inner BuildRight (4)
         :- * Filter (2)
         :  +- Scan HudiFileGroup spark_catalog.shop.orders (1)
         +- Scan HudiFileGroup spark_catalog.shop.customers (3)


(1) Scan HudiFileGroup spark_catalog.shop.orders
Output [2]: [id#1L, amount#2]
Batched: true
PushedFilters: [IsNotNull(amount)]

(2) Filter
Input [2]: [id#1L, amount#2]
Condition : (amount#2 > 1)

(3) Scan HudiFileGroup spark_catalog.shop.customers
Output [1]: [id#3L]
"""
COST = """== Optimized Logical Plan ==
Project [id#1L], Statistics(sizeInBytes=1.5 KiB, rowCount=1.20E+3)
+- Relation spark_catalog.shop.orders[id#1L] parquet, Statistics(rowCount=291009)

"""
LIMITED = """Project [id#1L]
+- SubqueryAlias spark_catalog.shop.orders
   +- Guarded (2 rules)
      +- LocalRelation <empty>, [id#1L, item#2]
"""


def names(node: Node) -> list[object]:
    return [node.table or node.name, *map(names, node.children)]


def test_a_tree_is_read() -> None:
    root = plan_of(FORMATTED)
    assert names(root) == [
        "HashAggregate",
        [
            "Exchange",
            [
                "BroadcastHashJoin Inner BuildRight",
                ["Filter", ["shop.orders"]],
                ["shop.customers"],
            ],
        ],
    ]
    join = root.children[0].children[0]
    assert join.children[0].note == "(amount > 1)"
    assert tables_of(FORMATTED) == ["shop.customers", "shop.orders"]


def test_rows_are_the_plan_s_or_the_table_s() -> None:
    root = plan_of(COST)
    assert (root.rows, root.children[0].rows) == (1_200, 291_009)
    boxes = picture_of(FORMATTED, {"shop.orders": 7}).boxes
    assert {box.rows for box in boxes if box.table == "shop.orders"} == {7}
    assert {box.rows for box in boxes if box.table == "shop.customers"} == {None}


@pytest.mark.parametrize("said", ["1.2.3", "E", "9E+999", "+", "9" * 400])
def test_what_a_statement_says_of_rows_is_a_number_or_nothing(said: str) -> None:
    """Texts of a statement stand in its plan."""
    assert picture_of(f"Project ['rowCount={said}' AS x]")


def test_work_is_bounded_whatever_refers_to_whatever() -> None:
    """Each of many operators would read all lines below the tree."""
    tree = "Scan a (1)\n" + "+- Scan a (1)\n" * MOST_OPERATORS
    details = "\n(1) Scan\n" + "x\n" * MOST_DETAILS + "Condition : late\n"
    assert plan_of(f"{tree}\n{details}") is None
    assert plan_of(f"Scan a (1)\n\n{details}").note == ""


def test_what_limits_a_table_is_one_box_with_nothing_below() -> None:
    guarded = plan_of(LIMITED).children[0]
    assert (guarded.rules, guarded.table, guarded.children) == (2, "shop.orders", [])


def test_boxes_do_not_overlap_and_lie_in_the_picture() -> None:
    picture = picture_of(FORMATTED)
    for one in picture.boxes:
        assert 0 <= one.x <= picture.width - WIDE
        assert 0 <= one.y <= picture.height - HIGH
        for other in picture.boxes:
            is_same_row = one is not other and one.y == other.y
            assert not is_same_row or abs(one.x - other.x) >= WIDE
    assert len(picture.lines) == len(picture.boxes) - 1


def test_what_is_no_plan_has_no_picture() -> None:
    wide = "Union\n" + ":- Range\n" * MOST_BOXES + "+- Range"
    deep = "\n".join(
        "   " * (n - 1) + "+- Project" if n else "Project" for n in range(90)
    )
    for text in ("", "42\n", "== Parsed Logical Plan ==\n'Project", wide):
        assert picture_of(text) is None
    assert len(picture_of(deep).boxes) == 90
    for hostile in ("(" * 100_000, ": " * 50_000, "+- " * 50_000, ":  " * 90 + "x"):
        picture_of(hostile + "\n" + hostile)
