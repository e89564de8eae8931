"""`docs/limits.md` names limits, defaults and tests that exist, and leaves none out."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
from django.conf import settings

from gateway.limits import GatewayLimits

ROOT = Path(__file__).resolve().parents[3]
ENGINE = ROOT / "gateway/engines/spark/java/src/io/sluice/engine"
JAVA = {
    name: ENGINE / f"{name}.java"
    for name in ("StatementBounds", "PlanBounds", "PartBounds", "PlanningPlaces")
}


@dataclass(frozen=True)
class Row:
    limit: str
    default: str
    setting: str
    test: str


def rows() -> list[Row]:
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs/limits.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| Limit")
    ]
    return [Row(*line) for line in cells]


def value_of(setting: str) -> object:
    """What the named setting is in the code."""
    if setting.startswith("limits."):
        return getattr(GatewayLimits(), setting.removeprefix("limits."))
    if setting.startswith("SLUICE_"):
        return getattr(settings, setting)
    owner, _, name = setting.rpartition(".")
    if owner in JAVA:
        text = JAVA[owner].read_text()
        found = re.search(rf"static final int {name} = ([^;]+);", text)
        assert found, f"{owner} has no {name}"
        return {"1 << 20": 1 << 20}.get(found[1]) or int(found[1].replace("_", ""))
    return getattr(importlib.import_module(owner), name)


def shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}".removesuffix(".0")  # type: ignore[str-format]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.setting)
def test_a_row_says_what_the_code_has(row: Row) -> None:
    assert shown(value_of(row.setting)) == row.default
    path, _, name = row.test.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if hasattr(node, "name")}


def test_no_limit_is_left_out() -> None:
    named = {row.setting for row in rows()}
    # the process takes this one from the settings
    ours = {f"limits.{item.name}" for item in fields(GatewayLimits)}
    assert ours - named == {"limits.statement_seconds"}
    for owner, path in JAVA.items():
        java = re.findall(r"^  static final int (\w+)", path.read_text(), re.MULTILINE)
        assert {f"{owner}.{name}" for name in java} <= named
