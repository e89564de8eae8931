"""Files and functions stay short enough to be held in the head."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 600, 50
FOLDERS = ["config", "core", "catalog", "ingest", "gateway", "frontend", "tests"]


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_and_functions_stay_within_their_budget(folder: str) -> None:
    too_long = []
    for path in files(folder):
        text = path.read_text()
        if text.count("\n") > MOST_LINES:
            too_long.append(f"{path.name}: {text.count(chr(10))} lines")
        for found in functions(ast.parse(text)):
            lines = (found.end_lineno or 0) - found.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION:
                too_long.append(f"{path.name}: {found.name} has {lines} lines")
    assert too_long == []
