"""Sentences that Python makes for pages go through translation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from core import errors
from frontend.messages import CALLS, PARAMETER, messages, shown_files, shown_texts
from frontend.templatetags.states import WORDS

PRODUCT = Path(__file__).resolve().parents[3]
FRONTEND = PRODUCT / "frontend"
PACKAGES = {"core", "catalog", "ingest", "gateway", "frontend", "config"}
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


def test_a_sentence_for_people_is_a_constant():
    """`Sentence("… %(name)s …", name=…)`, not an f-string: pages translate it."""
    lacking = []
    for path in shown_files():
        found = shown_texts(ast.parse(path.read_text()))
        lacking += [
            f"{path.relative_to(PRODUCT)}: {ast.unparse(one)}"
            for one in found
            if isinstance(one, ast.JoinedStr)
        ]
    assert lacking == []


def test_each_phase_of_a_job_has_a_word_and_what_it_counts():
    lacking = []
    for path in sorted((PRODUCT / "ingest" / "driver").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not _enters(call.func):
                continue
            units = [k.value for k in call.keywords if k.arg == "unit"]
            for of, found in (("phase", call.args), ("unit", units)):
                for one in found:
                    word = ast.literal_eval(one)
                    lacking += [] if word in WORDS[of] else [f"{path.name}: {word}"]
    assert lacking == []


def _enters(called: ast.expr) -> bool:
    """Whether it is `run.enter`, of whatever."""
    is_enter = isinstance(called, ast.Attribute) and called.attr == "enter"
    return is_enter and ast.unparse(called).endswith("run.enter")


def test_a_sentence_is_given_what_its_message_names():
    """Else it fails as somebody is to read it, in place of what went wrong."""
    lacking = []
    for path in sorted(PRODUCT.glob("*/**/*.py")):
        if path.relative_to(PRODUCT).parts[0] not in PACKAGES:
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                lacking += [f"{path.name}:{call.lineno} {n}" for n in _amiss(call)]
    assert lacking == []


def _amiss(call: ast.Call) -> set[str]:
    """What is named and not given; of an error, what is given and not named, too: it
    may be a hint that is misspelt."""
    name = _name(call)
    if name not in {"Sentence", *ERRORS} or not call.args:
        return set()
    own = set() if name == "Sentence" else {"code", "hint", "facts", "pointer"}
    given = {keyword.arg for keyword in call.keywords} - own
    if not given or None in given:  # a message alone, or names that are not seen here
        return set()
    hints = [k.value for k in call.keywords if k.arg == "hint"]
    texts = [
        node.value
        for said in (call.args[0], *(h for h in hints if not isinstance(h, ast.Call)))
        for node in ast.walk(said)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = {name for text in texts for name in PARAMETER.findall(text)}
    return named ^ given if own and named else named - given


def _name(call: ast.Call) -> str:
    """What it calls by a plain name; "" else. To write each call of Sluice as text would
    take longer than to read all of it."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


# What they say is for programs: wire protocols, REST's own addresses, the set-up.
FOR_PROGRAMS = (
    "catalog/access/policy.py",
    "catalog/api/",
    "catalog/schema/types.py",
    "catalog/selectors/paging.py",
    "catalog/sources/kinds.py",
    "catalog/sources/registry.py",
    "gateway/engines/launch.py",
    "gateway/handler.py",
    "gateway/hs2/",
    "gateway/http_transport.py",
    "gateway/internal.py",
    "gateway/metadata.py",
    "ingest/api/",
    "ingest/driver/",
    "ingest/jobs/",
    "ingest/sources/dialect.py",
    "ingest/sources/mariadb/dialect.py",
)
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type)} | {
    "EngineUnavailable",
    "EngineRefused",
    "EngineFull",
}


def test_what_errors_say_is_translated(known):
    """Else a page in Chinese has an English sentence where something went wrong."""
    lacking = []
    for package in ("core", "catalog", "ingest", "gateway"):
        for path in sorted((PRODUCT / package).rglob("*.py")):
            name = str(path.relative_to(PRODUCT))
            if not name.startswith(FOR_PROGRAMS):
                lacking += [f"{name}: {text}" for text in _untold(path, known)]
    assert lacking == []


def _untold(path: Path, known: set[str]) -> list[str]:
    """What its errors and hints say in words that no catalogue can have, or has not."""
    found = []
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or _name(call) not in ERRORS:
            continue
        hints = [each.value for each in call.keywords if each.arg == "hint"]
        for said in (*call.args[:1], *hints):
            text = said.value if isinstance(said, ast.Constant) else ""
            if isinstance(said, ast.JoinedStr) or (" " in text and text not in known):
                found.append(ast.unparse(said))
    return found
