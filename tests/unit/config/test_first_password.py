"""The administrator's first password can be typed behind an option of any client."""

from __future__ import annotations

import secrets

import pytest

from config.management.commands.prepare import first_password


def test_it_is_no_option_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_urlsafe", lambda count: "-" * count)
    assert first_password()[0].isalpha()
    assert first_password().endswith("-" * 15)
