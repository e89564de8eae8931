"""Stored secrets and their rotation, on a real PostgreSQL."""

from __future__ import annotations

from io import StringIO

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command

from catalog.models import Datasource
from catalog.secrets import decrypt, encrypt, key_id, password_of, rotate_secrets
from core import redaction
from core.errors import TerminalError

pytestmark = pytest.mark.django_db
OLD, NEW, SPARE = (Fernet.generate_key().decode() for _ in range(3))


@pytest.fixture
def stored(settings):
    settings.SLUICE_SECRETS_KEYS = [OLD]
    return [
        Datasource.objects.create(name=f"s{n}", kind="x", secret=encrypt(f"secret-{n}"))
        for n in range(3)
    ]


def test_the_key_id_is_kept_with_the_value(stored):
    assert stored[0].secret.startswith(f"{key_id(OLD)}:")
    assert "secret-0" not in stored[0].secret
    assert password_of(stored[0]) == "secret-0"
    assert encrypt("") == decrypt("") == ""


def test_rotation_re_encrypts_and_names_what_is_no_longer_needed(stored, settings):
    settings.SLUICE_SECRETS_KEYS = [NEW, OLD, SPARE]
    report = rotate_secrets()
    assert (report.checked, report.rewritten) == (3, 3)
    assert report.current_key == report.oldest_key == key_id(NEW)
    assert set(report.unused_keys) == {key_id(OLD), key_id(SPARE)}
    settings.SLUICE_SECRETS_KEYS = [NEW]
    rows = Datasource.objects.filter(name__startswith="s")
    assert {password_of(row) for row in rows} == {"secret-0", "secret-1", "secret-2"}
    assert rotate_secrets().rewritten == 0


def test_the_command_says_which_key_is_oldest(stored, settings):
    settings.SLUICE_SECRETS_KEYS = [NEW, OLD]
    out = StringIO()
    call_command("rotate_secrets", stdout=out)
    assert "3 re-encrypted" in out.getvalue()
    assert key_id(OLD) in out.getvalue()


def test_a_lost_key_and_a_changed_value_are_told_apart(stored, settings):
    name, _, token = stored[0].secret.partition(":")
    with pytest.raises(TerminalError) as failure:
        decrypt(f"{name}:{token[:-4]}AAAA")
    assert failure.value.code == "secret_damaged"
    settings.SLUICE_SECRETS_KEYS = [NEW]
    with pytest.raises(TerminalError) as failure:
        password_of(stored[0])
    assert failure.value.code == "secret_key_missing"


def test_createadmin_takes_no_password_as_argument(monkeypatch):
    monkeypatch.setenv("SLUICE_ADMIN_PASSWORD", "correct horse battery")
    out = StringIO()
    call_command("createadmin", "root", stdout=out)
    assert "root is an administrator" in out.getvalue()


def test_users_push_no_secret_of_a_source_out_of_what_logs_hide(person, monkeypatch):
    """Logs hide so many values; a user's own tokens and replies are not among them."""
    monkeypatch.setattr(redaction, "MOST_REMEMBERED", 3)
    ann = person("ann")
    encrypt("s3cret of a source")
    body = {"name": "cli", "expires_in_days": 1}
    made = [
        ann("POST", "tokens", body, Idempotency_Key=f"{n}").json() for n in range(5)
    ]
    assert "s3cret" not in redaction.redact("login with s3cret of a source failed")
    assert not any(one["token"] in redaction.redact(one["token"]) for one in made)
