"""Sentences that Python makes for pages go through translation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from frontend.messages import CALLS, messages, moved_files, shown_texts

FRONTEND = Path(__file__).resolve().parents[3] / "frontend"
SENTENCE = re.compile(r"[A-Za-z]+,? [a-z]+,? [a-z]")
# code, headers, and what only programs or service errors say
OTHERS = re.compile(r"pyhive|the Hudi bundle|SELECT|beeline|input changed")


def sentences(tree: ast.Module) -> set[str]:
    """Return the texts of three words or more that no call of gettext has."""
    apart = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or isinstance(node, ast.Raise)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in CALLS
        )
    ]
    marked = {inner for node in apart for inner in ast.walk(node)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node not in marked
        and SENTENCE.search(node.value)
    }


@pytest.fixture(scope="module")
def known() -> set[str]:
    return {message.text for message in messages()}


@pytest.mark.parametrize("path", sorted(FRONTEND.rglob("*.py")), ids=lambda p: p.stem)
def test_no_sentence_of_python_is_outside_translation(path, known):
    found = sentences(ast.parse(path.read_text()))
    assert {text for text in found - known if not OTHERS.search(text)} == set()


@pytest.mark.parametrize("path", moved_files(), ids=lambda p: p.stem)
def test_a_sentence_of_a_moved_module_is_a_constant(path):
    """`Sentence("… %(name)s …", name=…)`, not an f-string: pages translate it."""
    found = shown_texts(ast.parse(path.read_text()))
    assert [ast.unparse(one) for one in found if isinstance(one, ast.JoinedStr)] == []
