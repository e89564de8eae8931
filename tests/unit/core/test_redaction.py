"""What must not leave the process does not, by value and by shape."""

from __future__ import annotations

import json
import logging

import pytest

from config.logs import JsonLines
from core.context import current, working_for
from core.redaction import HIDDEN, redact, redact_facts, remember_secret


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:hunter22@host/db",
        "password=hunter22",
        "PASSWORD: hunter22",
        '{"password": "hunter22"}',
        "{'secret': 'hunter22'}",
        "jdbc:x?user=a&password=hunter22&ssl=true",
    ],
)
def test_shapes_of_secrets_are_hidden(text):
    assert "hunter22" not in redact(text)
    assert HIDDEN in redact(text)


def test_whether_a_server_got_a_password_is_no_secret():
    words = "Access denied for user 'ann'@'localhost' (using password: YES)"
    assert redact(words) == words
    assert "hunter22" not in redact("(using password: hunter22)")


def test_tokens_and_remembered_values_are_hidden():
    assert "abcDEF" not in redact("Bearer slt_0123456789ab_abcDEF-_xyz")
    remember_secret("p@ss w0rd, odd")
    assert "w0rd" not in redact("login with p@ss w0rd, odd failed")


def test_short_values_do_not_eat_words():
    remember_secret("id")
    assert redact("an id") == "an id"


def test_facts_are_cleaned_by_key_and_in_depth():
    facts = redact_facts(
        {
            "password": "x",
            "nested": {"api_token": "y", "list": ["password=abc"]},
            "changed_credentials": True,
            "rows": 3,
        }
    )
    assert facts["password"] == HIDDEN
    assert facts["nested"] == {"api_token": HIDDEN, "list": [f"password={HIDDEN}"]}
    assert (facts["changed_credentials"], facts["rows"]) == (True, 3)


def _line(message, *args, **extra):
    record = logging.LogRecord("t", logging.INFO, "f", 1, message, args, None)
    vars(record).update(extra)
    return json.loads(JsonLines().format(record))


def test_a_log_line_is_json_with_ids_and_without_secrets():
    remember_secret('odd"secret\\here')
    with working_for(request_id="r1", job_id="j1", actor="ann"):
        line = _line('connect as %s with odd"secret\\here', "ann", ms=3)
    assert (line["request_id"], line["job_id"], line["actor"]) == ("r1", "j1", "ann")
    assert line["ms"] == 3
    assert line["message"].startswith("connect as ann")
    assert "secret\\here" not in line["message"]
    assert current().request_id == ""


def test_exceptions_are_cleaned_too():
    remember_secret("s3cret-in-driver")
    try:
        raise ValueError("cannot log in with s3cret-in-driver")
    except ValueError as error:
        record = logging.LogRecord(
            "t",
            logging.ERROR,
            "f",
            1,
            "x",
            (),
            (type(error), error, error.__traceback__),
        )
    line = json.loads(JsonLines().format(record))
    assert "ValueError" in line["exception"]
    assert "s3cret" not in line["exception"]
