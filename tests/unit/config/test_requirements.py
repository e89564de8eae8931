"""What product code imports is what its environment has: `requirements.in`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from config.toolchain.paths import ROOT
from tests.run_environment import locked, normal, only_for_tests, product_python

PACKAGES = ("config", "core", "catalog", "ingest", "gateway", "frontend")
# they come with a package that is required, and as its part
WITH = {"py4j": "pyspark", "kombu": "celery"}
# what developers alone run
OF_DEVELOPMENT = {"config/contracts.py", "config/toolchain/translations.py"}


def imported(path: Path) -> Iterator[str]:
    """Top-level modules that a file imports, wherever in it, when it runs."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_product_code_imports_what_is_required() -> None:
    ours = {*sys.stdlib_module_names, *PACKAGES}
    required = locked("requirements.in")
    distributions = packages_distributions()
    missing = {
        f"{path.relative_to(ROOT)} imports {name}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if str(path.relative_to(ROOT)) not in OF_DEVELOPMENT
        for name in (WITH.get(each, each) for each in imported(path))
        if name not in ours
        and not required & {normal(each) for each in distributions.get(name, [])}
    }
    assert missing == set()


def test_both_locks_have_the_same_versions() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / "config" / "toolchain" / f"{name}.lock").read_text()
        return {line.split()[0] for line in lines.splitlines() if "==" in line[:80]}

    assert pins("requirements") <= pins("requirements-dev")


@pytest.mark.parametrize("name", ["hypothesis", "flask", "moto.server"])
def test_products_that_tests_start_have_no_package_of_the_tests(name: str) -> None:
    program = f"import django, {name}"
    done = subprocess.run(
        [product_python(), "-c", program], capture_output=True, text=True, check=False
    )
    assert f"No module named '{name.partition('.')[0]}" in done.stderr


def test_products_that_tests_start_have_their_own() -> None:
    theirs = sorted({"django", "pyspark", "hudi", "pip"})
    assert not only_for_tests() & set(theirs)
    program = f"import {', '.join(theirs)}, sys; print(sys.prefix != sys.base_prefix)"
    done = subprocess.run(
        [product_python(), "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
