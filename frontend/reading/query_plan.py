"""The plan of a statement as a picture: read from the text that EXPLAIN answers with.

Pure. Operators are boxes, the result on top; arrows of a plan run upwards. Scans are
named by their table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

WIDE, HIGH, GAP_X, GAP_Y = 190, 46, 16, 26
MOST_BOXES, MOST_LINES, LONGEST_LINE = 150, 4_000, 2_000
# with wrappers; and lines below the tree about one of them
MOST_OPERATORS, MOST_DETAILS = 600, 40
LONGEST_NAME, LONGEST_NOTE = 24, 30
# of the sections of the answer, the one nearest to what is executed
SECTIONS = ("Physical Plan", "Optimized Logical Plan", "Analyzed Logical Plan")
# what only wraps an operator, and says nothing of the statement
WRAPPERS = frozenset({"AdaptiveSparkPlan", "SubqueryAlias", "InputAdapter"})

_SECTION = re.compile(r"== ([A-Z][A-Za-z ]{0,40}) ==")
_BRANCH = re.compile(r"((?:[: ] {2}){0,99})([+:]- )?(\S.*)")
_NUMBER = re.compile(r"\((\d{1,9})\)$")
_ROWS = re.compile(r"rowCount=(\d{1,20}(?:\.\d{1,9})?(?:E\+\d{1,2})?)")
_TABLE = re.compile(r"spark_catalog\.([\w`]{1,300}\.[\w`]{1,300})")
_DETAIL = re.compile(r"\((\d{1,9})\) \S")
_RULES = re.compile(r"Guarded \((\d{1,9}) rules\)")


@dataclass(slots=True)
class Node:
    """An operator and what it reads from. rows: None = not known; rules: of ours, that
    take rows or values away below it."""

    name: str
    note: str = ""
    rows: float | None = None
    table: str = ""
    rules: int = 0
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Box:
    x: int
    y: int
    name: str
    note: str
    rows: int | None
    table: str
    rules: int

    @property
    def middle(self) -> int:
        return self.x + WIDE // 2


@dataclass(frozen=True, slots=True)
class Line:
    """From the bottom of a box to the top of one that it reads from."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class Picture:
    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]


def picture_of(text: str, rows: Mapping[str, int] | None = None) -> Picture | None:
    """None where the text has no plan, or one of too many operators to look at. rows:
    of tables, by `db.table`, where the plan itself has none."""
    root = plan_of(text)
    if root is None:
        return None
    nodes = list(_all(root))
    if len(nodes) > MOST_BOXES:
        return None
    for node in nodes:
        if node.table and node.rows is None:
            node.rows = (rows or {}).get(node.table)
    boxes: list[Box] = []
    lines: list[Line] = []
    width = _place(root, 0, 0, boxes, lines)
    height = max(box.y for box in boxes) + HIGH
    return Picture(width, height, boxes, lines)


def tables_of(text: str) -> list[str]:
    """`db.table` of each scan of the plan."""
    root = plan_of(text)
    return sorted({node.table for node in _all(root) if node.table}) if root else []


def plan_of(text: str) -> Node | None:
    lines = [line[:LONGEST_LINE] for line in text.splitlines()[:MOST_LINES]]
    tree = _section(lines)
    found: list[tuple[int, Node]] = []
    details = _details(lines)
    for line in tree:
        branch = _BRANCH.fullmatch(line)
        if branch is None or (found and not branch[2]):
            break
        depth = len(branch[1]) // 3 + bool(branch[2])
        found.append((depth, _node(branch[3], details)))
        if len(found) > MOST_OPERATORS:
            return None
    is_plan = bool(found) and found[0][0] == 0 and found[0][1].name[:1].isupper()
    return _folded(_tree(found)) if is_plan else None


def _section(lines: Sequence[str]) -> Sequence[str]:
    """The lines of the plan that is shown; all of them where none has a title."""
    starts = {
        title[1]: at + 1
        for at, line in enumerate(lines)
        if (title := _SECTION.fullmatch(line.strip()))
    }
    start = next((starts[name] for name in SECTIONS if name in starts), 0)
    if starts and not start:
        return ()
    # the analysed plan has its columns first
    is_analysed = start and lines[start - 1].strip("= ").startswith("Analyzed")
    return lines[start + bool(is_analysed) :]


def _details(lines: Sequence[str]) -> dict[str, list[str]]:
    """What EXPLAIN FORMATTED says below the tree, by the operator's number."""
    found: dict[str, list[str]] = {}
    here: list[str] = []
    for line in lines:
        if head := _DETAIL.match(line):
            here = found.setdefault(head[1], [])
        if len(here) < MOST_DETAILS:
            here.append(line)
    return found


def _node(text: str, details: Mapping[str, list[str]]) -> Node:
    text = re.sub(r"^\*(\(\d{1,9}\))? ?", "", text).strip()
    number = _NUMBER.search(text)
    more = details.get(number[1], []) if number else []
    whole = "\n".join([text, *more])
    name = re.split(r"[\[(,]| spark_catalog| <", text, maxsplit=1)[0].strip()
    table = _TABLE.search(whole) if "Scan" in name or "Relation" in name else None
    alias = _TABLE.search(text) if name.startswith("SubqueryAlias") else None
    rules, rows = _RULES.match(text), _ROWS.search(text)
    return Node(
        name=name.split(" ")[0] if name.startswith("SubqueryAlias") else name,
        note=_note(more),
        rows=float(rows[1]) if rows else None,
        table=((table or alias) or {1: ""})[1].replace("`", ""),
        rules=int(rules[1]) if rules else 0,
    )


def _note(details: Sequence[str]) -> str:
    """The condition or the keys of an operator, as EXPLAIN FORMATTED has them."""
    for wanted in ("Condition", "Left keys", "Keys", "PushedFilters", "Arguments"):
        for line in details:
            name, _, said = line.partition(":")
            if name.split(" [")[0].strip() == wanted and said.strip() not in {"", "[]"}:
                return re.sub(r"#\d{1,9}L?", "", said).strip()
    return ""


def _tree(found: Sequence[tuple[int, Node]]) -> Node:
    above = [found[0]]
    for depth, node in found[1:]:
        while above[-1][0] >= depth and len(above) > 1:
            above.pop()
        above[-1][1].children.append(node)
        above.append((depth, node))
    return found[0][1]


def _folded(node: Node) -> Node:
    """Without wrappers; what is below one keeps the table that it named."""
    while node.name.split(" ")[0] in WRAPPERS and len(node.children) == 1:
        below = node.children[0]
        below.table = below.table or node.table
        node = below
    if node.rules or node.name == "Guarded":
        node.children = []  # there is nothing to see below
    node.children = [_folded(child) for child in node.children]
    return node


def _all(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += one.children


def _place(
    node: Node, left: int, depth: int, boxes: list[Box], lines: list[Line]
) -> int:
    """Set a node over the middle of what it reads from; where its part ends."""
    y, right, middles = depth * (HIGH + GAP_Y), left, []
    for child in node.children:
        start = right if right == left else right + GAP_X
        right = _place(child, start, depth + 1, boxes, lines)
        middles.append(boxes[-1].middle)
    if not middles:
        right, middle = left + WIDE, left + WIDE // 2
    else:
        middle = (middles[0] + middles[-1]) // 2
    lines += [Line(middle, y + HIGH, m, y + HIGH + GAP_Y) for m in middles]
    boxes.append(
        Box(
            x=middle - WIDE // 2,
            y=y,
            name=_cut(node.name, LONGEST_NAME),
            note=_cut(node.note, LONGEST_NOTE),
            rows=None if node.rows is None else round(node.rows),
            table=_cut(node.table, LONGEST_NAME),
            rules=node.rules,
        )
    )
    return right


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
