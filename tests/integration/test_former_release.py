"""The database of the release before this one, under the code of today: its rows are
migrated, and REST answers of them what it answered then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.former.restored import Former, restored_database, unpack

# Members that tell of the moment of asking, of the one who asks, or of the release.
VOLATILE = {"request_id", "lag_seconds", "last_used_at", "release"}
# A list of sentences for people, which may be put otherwise.
SENTENCES = "/description/"
GONE = "is gone"
Difference = tuple[str, Any, Any]


@pytest.fixture(scope="module")
def former(
    tmp_path_factory: pytest.TempPathFactory, metadata_pg: Any, django_db_blocker: Any
) -> Iterator[Former]:
    made = unpack(tmp_path_factory.mktemp("former"))
    with django_db_blocker.unblock(), restored_database(made, metadata_pg):
        yield made


def test_every_migration_applies_and_none_is_missing(former: Former) -> None:
    call_command("migrate", check_unapplied=True, verbosity=0)


def test_rest_answers_what_it_answered(former: Former) -> None:
    found = [
        (name, path, *each)
        for name, answers in former.answers.items()
        for path, (status, body) in answers.items()
        for each in differences([status, body], asked_again(former, name, path))
    ]
    assert found == []


def asked_again(former: Former, name: str, path: str) -> list[Any]:
    """Status and body, without what came after the answers of then: the job that was
    under way at the end, and what was audited."""
    reply = former.rest(name)("GET", path.lstrip("/"))
    body = reply.json()
    _, then = former.answers[name][path]
    interrupted = former.facts["interrupted"]
    for rows in ("items", "jobs"):
        if rows in body:
            body[rows] = [row for row in body[rows] if row.get("id") != interrupted]
    if path.startswith("/audit?") and "items" in then:
        known = {entry["id"] for entry in then["items"]}
        body["items"] = [entry for entry in body["items"] if entry["id"] in known]
    return [reply.status_code, body]


def differences(then: Any, now: Any, at: str = "") -> Iterator[Difference]:
    """Where a value of then is not there any more. Members may have been added."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in then.keys() - VOLATILE:
            yield from differences(then[name], now.get(name, GONE), f"{at}/{name}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (value, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(value, other, f"{at}/{number}")
    elif then != now and not (now and SENTENCES in at):
        yield at, then, now


def test_passwords_still_log_in(former: Former) -> None:
    for name, password in former.facts["passwords"].items():
        right = {"username": name, "password": password}
        assert Client().post("/login", right).status_code == 302, name
        wrong = {**right, "password": f"{password}!"}
        assert Client().post("/login", wrong).status_code != 302, name
