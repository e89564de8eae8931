"""Words that the glossary replaced do not come back into what pages show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from frontend.messages import messages

ROOT = Path(__file__).resolve().parents[3]
FUNCTIONS_OF_SQL = ROOT / "gateway" / "metadata.py"  # named as Spark names them
PACKAGES = ("core", "catalog", "ingest", "gateway", "frontend", "config")
# former word -> the field's
FORMER = {
    r"carr(?:y|ies|ied|ying)": "sync",
    r"rounds?": "sync",
    r"feeds?": "pipeline",
    r"re-sync\w*": "resync",
    r"owed": "due",
    r"told|said": "notified, reported",
    r"somebody|nobody|whoever|anybody": "name the actor",
    r"meanwhile": "until then",
    r"by (?:itself|themselves)": "automatically",
    r"stays? there|lies in|stands (?:still|below|here)": "is",
    r"strays?|rubble|twins?|unborn": "orphan, uncommitted, duplicate files",
    r"doorbell|knocking|strangers?": "notification, unauthenticated peer",
    r"wish(?:es)?": "request",
    r"desk|postman|babbles?": "service, delivery worker, sent an invalid reply",
    r"anew": "again",
    r"quiet hours|upkeep": "maintenance window, maintenance",
    r"ways? out|way back|ways of repair": "remedies, how to undo",
    r"looked at|last look": "checked",
    r"lost points?": "deduction",
    r"at work|well again": "running, resolved",
}
PATTERN = re.compile(rf"\b(?:{'|'.join(FORMER)})\b", re.IGNORECASE)


def test_no_message_uses_a_former_word():
    found = {
        f"{hit[0]}: {message.text}"
        for message in messages()
        if (hit := PATTERN.search(f"{message.text} {message.plural}"))
    }
    assert found == set()


@pytest.mark.parametrize("page", ["operations.md", "schedules.md"])
def test_no_page_of_operators_uses_a_former_word(page):
    lines = (ROOT / "docs" / page).read_text().splitlines()
    assert [line for line in lines if PATTERN.search(line)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_sentence_in_python_uses_a_former_word(package):
    found = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts and path != FUNCTIONS_OF_SQL
        for text in sentences(ast.parse(path.read_text()))
        if PATTERN.search(text) and not text.lstrip().startswith("SELECT")
    }
    assert found == set()


def sentences(tree: ast.Module) -> Iterator[str]:
    """Return the strings with a space in them that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in docstrings and " " in node.value:
            yield node.value
