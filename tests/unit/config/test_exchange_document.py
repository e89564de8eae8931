"""The document of export and import: what is read, what is refused, and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.api.documents import StatedDatasource, StatedUser
from catalog.api.serializers import DatasourceNew, UserNew
from config.config_export.diff import compare
from config.config_export.document import Document, Item, parse_document
from config.config_export.rendering import render
from config.config_export.text import read_text, write_text
from core.errors import InvalidRequest
from ingest.api.alert_replies import AlertTargetNew
from ingest.api.documents import (
    StatedOnboarding,
    StatedPolicy,
    StatedTable,
    StatedTarget,
)
from ingest.api.requests import OnboardingNew, PolicyChange, TableChoices

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
    ("sluice: 1\ngrants:\n- {role: viewer, on: lake}", "line 3: /grants/0: 'principal' is missing"),
    ("sluice: 1\nusers:\n- {name: a, groups: [b, 1]}", "/users/0/groups/1: must be a text; put it in quotes"),
    ("sluice: 1\nusers:\n- {name: a, is_admin: 1}", "/users/0/is_admin: must be true or false"),
    ("sluice: 1\nusers:\n- {name: a, password: x}", "/users/0/password: unknown; known: name"),
    ("sluice: 1\nusers:\n- {name: a, identity: {provider: x}}", "/users/0/identity: 'subject' is missing"),
    ("sluice: 1\nusers:\n- a", "/users/0: must have members: name"),
    ("sluice: 1\nusers:", "line 2: /users: must be a list"),
    ("sluice: 1\ndatasources:\n- {name: a, kind: x, port: '1'}", "/datasources/0/port: must be a whole number"),
    ("sluice: 1\nonboardings:\n- {datasource: a}", "line 3: /onboardings/0: name tables under"),
    ("sluice: 1\nonboardings:\n- {datasource: a, tables: {b.c: {kee: 1}}}", "/onboardings/0/tables/b.c/kee: unknown"),
    ("sluice: 1\nonboardings:\n- {datasource: a, tables: {b.c: {updates: no}}}", "/updates: must be full or partial"),
    ("sluice: 1\nalert_targets:\n- {name: a, kind: fax}", "/alert_targets/0/kind: must be email or webhook"),
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
        Item("datasource", ("s",), {"kind": "postgresql", "options": {"x": [1]}}),
        Item("onboarding", ("s", "a.b"), {"capture": "snapshot", "buckets": 2}),
        Item("onboarding of", ("s", "a.*"), {"capture": "snapshot", "exclude": ["x"]}),
    ]
    read = parse_document(read_text(write_text(render(items))).data)
    assert {c.action for c in compare(items, read)} == {"unchanged"}


def test_entries_have_the_members_of_the_requests_of_rest():
    """What an export leaves out is a secret, or is no decision."""
    for stated, request, left_out in [
        (StatedUser, UserNew, {"password"}),
        (StatedDatasource, DatasourceNew, {"password"}),
        (StatedPolicy, PolicyChange, set()),
        (StatedTarget, AlertTargetNew, {"url", "secret"}),
        (StatedTable, TableChoices, {"capture", "schedule", "lake_name"}),
        (StatedOnboarding, OnboardingNew, {"defaults", "dry_run", "approve"}),
    ]:
        assert set(request().fields) - set(stated().fields) == left_out


def test_what_is_not_stated_stays_away():
    read = parse_document(
        {
            "sluice": 1,
            "users": [{"name": "a"}],
            "datasources": [{"name": "m", "kind": "mysql", "database": ""}],
            "policies": [{"on": "m", "lag_seconds": "5"}],
            "onboardings": [{"datasource": "m", "tables": {"a.b": None, "a.c": {}}}],
        }
    )
    assert [(item.kind, dict(item.fields)) for item in read.items] == [
        ("user", {}),
        ("datasource", {"kind": "mysql", "database": ""}),
        # as it is written: the policy itself judges its numbers
        ("policy", {"lag_seconds": "5"}),
        ("onboarding", {}),
        ("onboarding", {}),
    ]


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
