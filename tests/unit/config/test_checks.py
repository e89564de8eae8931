"""Wrong settings stop the start with an id and a hint."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.checks import check_settings, require_sound_settings


def ids():
    return {message.id for message in check_settings(None)}


def test_the_settings_of_the_tests_are_sound():
    assert ids() == set()
    require_sound_settings()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SLUICE_SECRETS_KEYS", [], "sluice.E001"),
        ("SLUICE_SECRETS_KEYS", ["short"], "sluice.E002"),
        ("SECRET_KEY", "short", "sluice.E003"),
        ("SECRET_KEY", "changeme" * 10, "sluice.E003"),
        ("SLUICE_SERVICE_SECRET", "SAME", "sluice.E004"),
        ("SLUICE_SOURCE_NETWORKS_DENIED", ["10.0.0.0/99"], "sluice.E005"),
        ("SLUICE_TLS_KEY", "/x.pem", "sluice.E006"),
        ("DEBUG", True, "sluice.W001"),
    ],
)
def test_each_fault_has_its_id(settings, name, value, expected):
    setattr(settings, name, settings.SECRET_KEY if value == "SAME" else value)
    assert expected in ids()
    assert all(message.hint for message in check_settings(None))


def test_processes_without_a_command_refuse_too(settings):
    settings.SLUICE_SECRETS_KEYS = []
    with pytest.raises(ImproperlyConfigured, match="SLUICE_SECRETS_KEYS"):
        require_sound_settings()
