"""Benches, sieges and campaigns import our own code within functions, as they set it up
first, and no test runs them: what they import has to be there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
OURS = ("config", "core", "catalog", "ingest", "gateway", "frontend", "tests")
FILES = [
    path
    for folder in ("bench", "siege", "compat", "fault")
    for path in sorted((TESTS / folder).glob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_imported_is_there(path: Path) -> None:
    lacking = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.partition(".")[0] not in OURS:
            continue
        module = importlib.import_module(node.module)
        lacking += [
            f"{node.module}.{one.name}, line {node.lineno}"
            for one in node.names
            if not hasattr(module, one.name) and not _is_module(node.module, one.name)
        ]
    assert lacking == []


def _is_module(package: str, name: str) -> bool:
    try:
        importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError:
        return False
    return True
