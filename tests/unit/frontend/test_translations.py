"""Every sentence of a page is translated, wholly, into every language."""

from __future__ import annotations

import functools
import io
import re
from pathlib import Path

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.template.base import Lexer, TokenType

from frontend.messages import messages

FRONTEND = Path(__file__).resolve().parents[3] / "frontend"
TEMPLATES = FRONTEND / "templates"
CATALOGUES = sorted((FRONTEND / "locale").rglob("django.po"))
PLACEHOLDER = re.compile(r"%\((\w+)\)s")
MARKUP = re.compile(r"<(/?\w+)")
WORD = re.compile(r"[A-Za-z]{2,}")
# names and literals that are the same in every language
NAMES = {"Sluice", "NULL", "slt", "lake", "UTC", "nbsp", "middot", "ms"}
SHOWN = ("aria-label", "placeholder", "title", "alt")


@functools.cache
def catalogue(path: Path):
    with path.open("rb") as file:
        return read_po(file, locale=path.parts[-3])


def one_text(string: object) -> str:
    return string if isinstance(string, str) else " ".join(string)


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_every_message_is_translated(path):
    known = {m.id[0] if isinstance(m.id, tuple) else m.id: m for m in catalogue(path)}
    wanted = {message.text for message in messages()}
    assert wanted - set(known) == set(), "run `make messages` and translate"
    assert set(known) - wanted - {""} == set(), "run `make messages`"
    lacking = [text for text in wanted if not one_text(known[text].string).strip()]
    assert lacking == []
    assert [text for text in wanted if known[text].fuzzy] == []


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_translations_keep_placeholders_and_markup(path):
    for one in catalogue(path):
        if not one.id:
            continue
        original = one.id[-1] if isinstance(one.id, tuple) else one.id
        text = one_text(one.string)
        assert set(PLACEHOLDER.findall(text)) == set(PLACEHOLDER.findall(original))
        assert sorted(MARKUP.findall(text)) == sorted(MARKUP.findall(original)), text


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_the_compiled_catalogue_is_of_this_text(path):
    compiled = io.BytesIO()
    write_mo(compiled, catalogue(path))
    assert compiled.getvalue() == path.with_suffix(".mo").read_bytes(), "make messages"


@pytest.mark.parametrize(
    "path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.stem
)
def test_no_text_of_a_template_is_outside_translation(path):
    bare = without_tags(path.read_text())
    attributes = re.findall(rf'(?:{"|".join(SHOWN)})="([^"]*)"', bare)
    shown = [re.sub(r"<[^>]*>", " ", bare), *attributes]
    found = {word for text in shown for word in WORD.findall(text)}
    assert found - NAMES == set()


def without_tags(source: str) -> str:
    """Return the text of a template without Django's tags and what they translate."""
    kept, is_inside = [], False
    for token in Lexer(source).tokenize():
        name = token.contents.split(" ")[0]
        if token.token_type == TokenType.BLOCK and name == "blocktranslate":
            is_inside = True
        elif token.token_type == TokenType.BLOCK and name == "endblocktranslate":
            is_inside = False
        elif token.token_type == TokenType.TEXT and not is_inside:
            kept.append(token.contents)
    return "".join(kept)
