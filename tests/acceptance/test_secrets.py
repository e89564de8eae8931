"""After all the work of this session no secret stands where people look."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import line_of, of_home
from tests.product import Product


@pytest.fixture
def secrets(product: Product) -> list[bytes]:
    """Login, token, the source's password and everything in keys/."""
    facts = product.connection
    found = [facts["password"], facts["token"], facts["demo_source"]["password"]]
    for path in (product.home / "keys").iterdir():
        text = path.read_text().strip()
        found += [text] if "\n" not in text and not text.startswith("{") else []
    assert len(found) > 6
    return [one.encode() for one in found if len(one) > 12]


def holding(paths: list[Path], secrets: list[bytes]) -> list[str]:
    return [str(p) for p in paths if any(one in content(p) for one in secrets)]


def content(path: Path) -> bytes:
    """Nothing of a file that the product has removed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def files_below(folder: Path) -> Iterator[Path]:
    """Unlike rglob it goes on when the product removes a folder meanwhile."""
    for where, _, names in os.walk(folder):
        yield from (Path(where) / name for name in names)


def test_no_log_holds_a_secret(product: Product, secrets: list[bytes]) -> None:
    logs = list(files_below(product.home / "logs"))
    assert len(logs) > 5
    assert holding(logs, secrets) == []


def test_the_lake_holds_no_secret(product: Product, secrets: list[bytes]) -> None:
    lake = Path(product.connection["lake"])
    small = [path for path in files_below(lake) if path.suffix != ".parquet"]
    assert small
    assert holding(small, secrets) == []


def test_no_process_shows_a_secret(product: Product, secrets: list[bytes]) -> None:
    lines = [line_of(process).encode() for process in of_home(product.home)]
    assert len(lines) > 8
    assert not [line for line in lines if any(one in line for one in secrets)]
