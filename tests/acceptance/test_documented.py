"""What docs show is run as it stands there: docs/rest.md and docs/connect.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.product import ROOT, Product

COMMANDS = {"bash": ["bash", "-euo", "pipefail"], "python": [sys.executable]}


def blocks(page: str, language: str) -> str:
    """All blocks of a language, one after the other, as a reader would run them."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, (page, language)
    return "\n".join(found)


def run(script: str, language: str, folder: Path, environment: dict[str, str]) -> str:
    (folder / "script").write_text(script)
    done = subprocess.run(
        [*COMMANDS[language], str(folder / "script")],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def environment(product: Product) -> dict[str, str]:
    """What the reader of docs/rest.md has set."""
    demo = product.connection["demo_source"]
    return {
        "SLUICE": product.connection["web_url"] + "/api/v1",
        "TOKEN": product.connection["token"],
        "DB_HOST": demo["host"],
        "DB_PORT": str(demo["port"]),
        "DB_NAME": demo["database"],
        "DB_USER": demo["username"],
        "DB_PASSWORD": demo["password"],
    }


def test_rest_by_example_runs(
    product: Product, environment: dict[str, str], tmp_path: Path
) -> None:
    out = run(blocks("rest.md", "bash"), "bash", tmp_path, environment)
    assert "progress" in out
    assert len((tmp_path / "products.csv").read_text().splitlines()) > 100
    out = run(blocks("rest.md", "python"), "python", tmp_path, environment)
    assert "lake.shop2.products LIVE" in out
    assert product.api.table("lake.shop2.products") is None


def test_python_connects_as_documented(product: Product, tmp_path: Path) -> None:
    connection = product.connection
    given = {
        "HOST": connection["gateway"]["host"],
        "PORT": connection["gateway"]["port"],
        "USER": connection["username"],
        "PASSWORD": connection["token"],
    }
    lines = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    out = run(lines + blocks("connect.md", "python"), "python", tmp_path, {})
    assert out.count("Decimal(") >= 9
