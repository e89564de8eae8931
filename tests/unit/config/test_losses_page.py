"""`docs/log-losses.md` names tests that exist, one at least for each report."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "log-losses.md").read_text().splitlines()
ROWS = [line for line in PAGE if line.startswith("| ") and "| Test |" not in line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_its_tests_exist(row: str) -> None:
    named = re.findall(r"`(tests/[^`]+)::([^`]+)`", row)
    assert named
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {one.name for one in tree.body if hasattr(one, "name")}
