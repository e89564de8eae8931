"""What is asked of a source is SQL of `ingest.sources`: a driver has no text of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SQL = re.compile(
    r"\bSELECT\b.*\bFROM\b|\b(?:WHERE|LIMIT|OFFSET|HAVING|ORDER BY|GROUP BY)\s"
    r"|\sIS (?:NOT )?NULL\b",
    re.DOTALL,
)
# a driver's process is recorded while it runs statements of its own
FREE = "rehearsal.py"


def statements(text: str) -> list[int]:
    """Lines where a text is SQL; documentation is none."""
    tree = ast.parse(text)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return sorted(
        {
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr | ast.Constant)
            and id(node) not in prose
            and SQL.search(ast.unparse(node))
        }
    )


def test_no_sql_for_sources_in_drivers() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in (ROOT / "ingest" / "driver").rglob("*.py")
        if path.name != FREE and (lines := statements(path.read_text()))
    }
    assert found == {}, "its place is ingest/sources/statements.py or a reader there"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('rows(f"SELECT {a} FROM {b}")', [1]),
        ('f"{a}" f" WHERE {b} > 1"', [1]),
        ('where = f"{a} IS NULL"', [1]),
        ('"this login may not SELECT it"', []),
        ('def f(): "SELECT 1 FROM t"', []),
        ('hint = "chosen FROM here"', []),
    ],
)
def test_what_counts_as_sql(text: str, lines: list[int]) -> None:
    assert statements(text) == lines
