"""The document of export and import: what is read, what is refused, and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.exchange.diff import compare
from config.exchange.document import Document, Item, parse_document
from config.exchange.rendering import render
from config.exchange.text import read_text, write_text
from core.errors import InvalidRequest

REFUSALS = [
    ("a: [", "line 1"),
    ("sluice: 2", "line 1: /sluice: must be there and be 1"),
    ("users: []", "must be there and be 1"),
    ("sluice: 1\nuser: []", "line 2: /user: unknown; known"),
    ("sluice: 1\nusers:\n- {name: 5}", "line 3: /users/0/name: must be a text; put it in quotes"),
    ("sluice: 1\nusers:\n- {name: a, admin: true}", "line 3: /users/0/admin: unknown"),
    ("sluice: 1\nusers:\n- &x {name: a}\n- *x", "line 4: aliases"),
    ("sluice: 1\nsluice: 1", "line 2: 'sluice' is given twice"),
    ("sluice: 1\nusers:\n- {name: a}\n- {name: a}", "line 4: /users/1: user a is also at /users/0"),
    ("sluice: 1\nusers: !!python/object:os.system x", "could not determine a constructor"),
    ("sluice: 1\ngrants:\n- {principal: group:x, on: lake}", "line 3: /grants/0: give exactly one"),
    ("[" * 600, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSALS)
def test_refusals_name_the_line_and_the_place(text, said):
    assert said in told(text)


def told(text: str) -> str:
    """As the command prints it."""
    try:
        found = read_text(text)
    except InvalidRequest as error:
        return str(error)
    with pytest.raises(InvalidRequest) as refused:
        parse_document(found.data)
    faults = refused.value.facts["errors"]
    assert isinstance(faults, list)
    lines = [
        f"line {found.line_of(f['pointer'])}: {f['pointer']}: {f['detail']}"
        for f in faults
    ]
    return "\n".join(lines)


words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1
) | st.sampled_from(
    ["on", "no", "true", "null", "~", "1e3", "0x1f", "07", "2026-01-01", "12:30:00",
     "- a", "a: b", "#x", "*x", "&x", "!x", "|", ">", "'", '"', "a\nb", " a ", "=", "<<"]
)  # fmt: skip


@settings(max_examples=60, derandomize=True)
@given(names=st.dictionaries(words, words, max_size=4))
def test_any_text_comes_back_as_it_was(names):
    data = {"on": names, "list": list(names), "plain": [1, True, None, 2.5, -3]}
    text = write_text(data)
    assert read_text(text).data == data
    assert write_text(read_text(text).data) == text


def test_what_is_rendered_is_read_again():
    items = [
        Item("user", ("ann",), {"groups": ["b"], "is_admin": False}),
        Item("grant", ("user:ann", "viewer", "lake"), {"role": "viewer"}),
        Item("grant", ("user:ann", "select", "lake"), {"privilege": "select"}),
        Item("datasource", ("s",), {"kind": "postgresql", "options.x": [1]}),
        Item("onboarding", ("s", "a.b"), {"capture": "snapshot", "buckets": 2}),
        Item("onboarding of", ("s", "a.*"), {"capture": "snapshot", "exclude": ["x"]}),
    ]
    read = parse_document(read_text(write_text(render(items))).data)
    assert {c.action for c in compare(items, read)} == {"unchanged"}


def test_only_what_is_stated_is_compared():
    have = [Item("user", ("a",), {"groups": ["x"], "is_admin": True})]
    same = Document((Item("user", ("a",), {"is_admin": True}),))
    other = Document((Item("user", ("a",), {"groups": []}),))
    assert [c.action for c in compare(have, same)] == ["unchanged"]
    assert [c.action for c in compare(have, other)] == ["change"]
    nothing = Document((), frozenset({"grants"}))
    assert compare(have, nothing) == []
    assert [c.action for c in compare(have, Document((), frozenset({"users"})))] == [
        "extra"
    ]
