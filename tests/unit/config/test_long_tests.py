"""Which tests a run takes, asked of pytest itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.long
@pytest.mark.parametrize("n", range(40))
def test_long(n): ...

@pytest.mark.long(together="dear")
@pytest.mark.parametrize("n", range(5))
def test_together(n): ...

def test_short(): ...

def test_of_the_product(request, product): ...
"""


ROOT = Path(__file__).resolve().parents[3]
PLAIN = ["-p", "tests.long_tests", "--collect-only", "-q", "--strict-markers"]
PLAIN += ["--import-mode=importlib", "-p", "no:cacheprovider"]
FIXTURE = "import pytest\n\n@pytest.fixture\ndef product(): ...\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(FIXTURE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def collected(path: str | Path, *options: str) -> list[str]:
    """Names of the tests that pytest would run. In a process of its own: one within
    ours ends the servers and the home of our session."""
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(path), *options, *PLAIN],
        env={**os.environ, **alone},
        cwd=Path(str(path).split("::")[0]).resolve().parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    found = (line.split("::") for line in done.stdout.splitlines())
    return [parts[-1] for parts in found if len(parts) > 1]


def test_none_all_and_slices(folder: Path) -> None:
    none = collected(folder)
    assert none == ["test_short", "test_of_the_product"]
    whole = collected(folder, "--long=all")
    assert len(whole) == 47
    slices = [collected(folder, f"--long={n}/3") for n in (1, 2, 3)]
    assert all(0 < len(one) < len(whole) for one in slices)
    long = [name for one in slices for name in one if name not in none]
    assert sorted(long) == sorted(set(whole) - set(none))
    together = [sum("together" in name for name in one) for one in slices]
    assert sorted(together) == [0, 0, 5]


def test_a_long_test_that_is_named_runs(folder: Path) -> None:
    path = f"{folder}/test_some.py"
    assert collected(f"{path}::test_long[7]") == ["test_long[7]"]
    assert len(collected(f"{path}::test_long")) == 40
    assert "test_long[7]" not in collected(path)


def test_tests_of_the_product_are_known_by_their_fixture(folder: Path) -> None:
    path = str(folder)
    assert collected(path, "-m", "product") == ["test_of_the_product"]
    assert collected(path, "-m", "not product") == ["test_short"]
