"""A sentence is English text that keeps its message and parameters."""

from __future__ import annotations

import pytest
from django.utils import translation

from core.errors import InvalidRequest
from core.sentences import (
    Sentence,
    joined,
    origins_in,
    restored,
    says,
    sentence_of,
    stored,
    stored_id,
)
from core.translation import translated
from ingest.contract.members import as_data

PAUSED = Sentence("paused by %(actor)s", actor="100% admin")
NESTED = Sentence("%(error)s; it is tried again", error=PAUSED)


def in_chinese(text: str) -> str:
    with translation.override("zh-hans"):
        return translated(text)


def test_its_text_is_english():
    assert PAUSED == "paused by 100% admin"
    assert NESTED == "paused by 100% admin; it is tried again"


def test_a_page_shows_it_in_its_readers_language():
    assert in_chinese(PAUSED) == "由 100% admin 暂停"
    assert in_chinese(NESTED) == "由 100% admin 暂停；将会重试"


def test_only_parameters_that_are_sentences_are_translated():
    assert in_chinese(Sentence("paused by %(actor)s", actor="sync")) == "由 sync 暂停"
    assert in_chinese("resume it first") == "请先恢复"
    assert in_chinese("a text of no catalogue: 100%") == "a text of no catalogue: 100%"


@pytest.mark.parametrize("text", ["", "plain", PAUSED, NESTED], ids=repr)
def test_a_column_keeps_all_of_it(text):
    kept = restored(stored(text))
    assert kept == text
    assert in_chinese(kept) == in_chinese(text)


def test_what_stands_in_a_column_begins_with_the_english():
    assert stored(NESTED).startswith(NESTED)
    assert stored(Sentence("without parameters")) == "without parameters"


def test_it_is_known_by_its_message_whatever_its_parameters():
    kept = restored(stored(NESTED))
    assert says(kept, "another", "%(error)s; it is tried again")
    assert not says(kept, "paused by %(actor)s")
    assert not says(str(kept), "%(error)s; it is tried again")
    assert stored_id("%(error)s; it is tried again") in stored(NESTED)


@pytest.mark.parametrize(
    "behind", ["", "{", "[1]", '["%(x)s", {}]', '["%(x)s", {"x": 1}]', '["other", {}]']
)
def test_what_no_sentence_left_in_a_column_is_text(behind):
    assert type(restored(f"text\x1e{behind}")) is str
    assert restored(f"text\x1e{behind}") == "text"


def test_a_text_from_outside_is_not_taken_for_a_sentence():
    forged = 'text\x1e["paused by %(actor)s", {"actor": "x"}]'
    assert "\x1e" not in restored(stored(forged))


def test_json_has_the_english_and_beside_it_what_it_was_made_of():
    value = {"why": [NESTED, "plain"]}
    found = origins_in(value)
    data = as_data(value)
    assert data == {"why": [str(NESTED), "plain"]}
    assert in_chinese(sentence_of(data["why"][0], found)) == in_chinese(NESTED)
    assert sentence_of("plain", found) == "plain"
    assert sentence_of("plain", None) == "plain"


def test_sentences_are_joined_as_one():
    both = joined([PAUSED, "", Sentence("resume it first")])
    assert both == "paused by 100% admin; resume it first"
    assert in_chinese(both) == "由 100% admin 暂停；请先恢复"
    assert joined([]) == ""


def test_an_error_with_its_hint_is_one_sentence():
    error = InvalidRequest(PAUSED, hint="resume it first")
    assert str(error) == "paused by 100% admin — resume it first"
    assert in_chinese(error.as_sentence) == "由 100% admin 暂停——请先恢复"
