"""Alert targets in export and import: where they are told apart from what lets people
in."""

from __future__ import annotations

import pytest

from catalog.models import AuditEntry
from catalog.secrets import decrypt
from ingest.alerts.smtp_spec import Smtp
from ingest.alerts.targets import NewTarget, create_target
from ingest.models.alerts import AlertTarget
from tests.integration.test_exchange import exported, imported

pytestmark = pytest.mark.django_db
SECRET, URL = "CANARY-of-a-secret", "https://127.0.0.1/hooks/CANARY-of-a-path"
FILE = """
sluice: 1
alert_targets:
- name: pager
  kind: webhook
  host: 127.0.0.1
  kinds: [stuck, failed]
  on: lake.shop
  language: zh-hans
  url_env: PAGER_URL
  secret_env: PAGER_SECRET
- {name: ops, kind: email, address: ops@example.com}
"""


@pytest.fixture(autouse=True)
def _here(settings, monkeypatch):
    settings.SLUICE_ALERT_NETWORKS_ALLOWED = ["127.0.0.0/8"]
    settings.SLUICE_SMTP = Smtp("127.0.0.1", 1, tls="off")
    monkeypatch.setenv("PAGER_URL", URL)
    monkeypatch.setenv("PAGER_SECRET", SECRET)


def test_an_export_holds_neither_secret_nor_path_and_comes_back(tmp_path) -> None:
    hook = NewTarget(
        "pager", "webhook", url=URL, secret=SECRET, kinds=["stuck"], on="lake.shop"
    )
    create_target(hook, by="root")
    create_target(NewTarget("ops", "email", address="ops@example.com"), by="root")
    text = exported()
    assert "CANARY" not in text
    assert "  host: 127.0.0.1\n" in text
    assert imported(tmp_path, text, "--check")[0] == 0
    AlertTarget.objects.all().delete()
    # without the variables the webhook is told of and left away
    code, said = imported(tmp_path, text)
    assert (code, "url_env and secret_env" in said) == (0, True)
    assert [row.name for row in AlertTarget.objects.all()] == ["ops"]


def test_a_webhook_takes_address_and_secret_from_the_environment(tmp_path) -> None:
    code, said = imported(tmp_path, FILE)
    assert code == 0, said
    assert "CANARY" not in said
    row = AlertTarget.objects.get(name="pager")
    assert (row.address, decrypt(row.secret)) == (URL, SECRET)
    assert (set(row.kinds), row.database) == ({"failed", "stuck"}, "shop")
    assert row.language == "zh-hans"
    assert "  language: zh-hans\n" in exported()
    assert AlertTarget.objects.get(name="ops").kinds == []
    assert imported(tmp_path, FILE, "--check")[0] == 0
    # what it is told changes; where it leads does not
    moved = FILE.replace("lake.shop", "lake").replace("ops@", "other@")
    moved = moved.replace("language: zh-hans", "language: en")
    code, said = imported(tmp_path, moved)
    assert (code, "delete it and create it again" in said) == (0, True)
    row.refresh_from_db()
    assert (row.address, row.database, row.language) == (URL, "", "en")
    assert AlertTarget.objects.get(name="ops").address == "ops@example.com"
    entry = AuditEntry.objects.get(action="alert_target.update")
    assert entry.facts["database"] == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("host: 127.0.0.1", "host: other.example"), "another host than other.example"),
        (("PAGER_SECRET", "NO_SUCH"), "no variable NO_SUCH"),
        (("[stuck, failed]", "[stuck, odd]"), "odd"),
        (("lake.shop", "shop"), "lake, lake.shop or lake.shop.orders"),
        (("kind: webhook", "kind: pigeon"), "email or webhook"),
        (("zh-hans", "tlh"), "must be en or zh-hans"),
        (("kind: webhook", "kinf: webhook"), "unknown; known"),
        (("url_env", "url"), "unknown; known"),
    ],
)
def test_what_is_refused_takes_everything_back(tmp_path, change, said) -> None:
    code, told = imported(tmp_path, FILE.replace(*change, 1))
    assert (code, said in told) == (2, True), told
    assert not AlertTarget.objects.exists()
