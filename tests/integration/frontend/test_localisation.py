"""Pages speak the reader's language and zone; REST does not."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.utils.html import strip_tags

from catalog.models import Preferences
from catalog.preferences import Chosen, save_preferences
from core.errors import InvalidRequest

pytestmark = pytest.mark.django_db
SIMPLIFIED = {"HTTP_ACCEPT_LANGUAGE": "zh-CN,zh;q=0.9,en;q=0.5"}


def lang(response) -> str:
    return response.content.decode().partition('<html lang="')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("asked", "given"),
    [("zh-CN,zh;q=0.9", "zh-hans"), ("de,en;q=0.5", "en"), ("fr", "en"), ("", "en")],
)
def test_before_the_login_the_browser_decides(client, asked, given):
    response = client.get("/login", HTTP_ACCEPT_LANGUAGE=asked)
    assert lang(response) == given
    assert response["Content-Language"] == given
    assert "Accept-Language" in response["Vary"]


def test_the_switch_works_before_the_login(client):
    response = client.post("/language", {"language": "zh-hans", "next": "/login"})
    assert response["Location"] == "/login"
    assert lang(client.get("/login")) == "zh-hans"


@pytest.mark.parametrize("wrong", ["tlh", "", "en'--"])
def test_a_language_that_does_not_exist_changes_nothing(client, wrong):
    client.post("/language", {"language": wrong, "next": "https://elsewhere.test/"})
    assert lang(client.get("/login", **SIMPLIFIED)) == "zh-hans"


def test_a_users_setting_goes_before_the_browser(world, browse):
    client = browse("ann")
    assert lang(client.get("/tables", **SIMPLIFIED)) == "zh-hans"
    client.post("/preferences", {"language": "en", "timezone": "Asia/Shanghai"})
    assert lang(client.get("/tables", **SIMPLIFIED)) == "en"
    assert "Asia/Shanghai" in client.get("/tables").content.decode()
    assert lang(browse("ann").get("/tables", **SIMPLIFIED)) == "en"  # another session


def test_the_switch_keeps_the_zone(world, browse):
    client = browse("ann")
    client.post("/preferences", {"language": "", "timezone": "Asia/Shanghai"})
    client.post("/language", {"language": "zh-hans"})
    row = Preferences.objects.get(user__username="ann")
    assert (row.language, row.timezone) == ("zh-hans", "Asia/Shanghai")


def test_times_follow_the_zone(world, browse):
    client = browse("root")
    page = f"/jobs/{world.jobs['running'].pk}"
    world.jobs["running"].__class__.objects.filter(pk=world.jobs["running"].pk).update(
        created_at="2026-08-22T20:30:00Z"
    )
    client.cookies["sluice-zone"] = "Asia%2FShanghai"  # what theme.js writes
    assert ">2026-08-23 04:30:00<" in client.get(page).content.decode()
    client.cookies["sluice-zone"] = "Nowhere/Atall"
    assert ">2026-08-22 20:30:00<" in client.get(page).content.decode()


def test_rest_is_in_the_language_that_a_request_accepts(world, browse):
    client = browse("ann")
    client.post("/preferences", {"language": "zh-hans", "timezone": "Asia/Shanghai"})
    path = "/api/v1/tables?limit=x"
    for asked, is_english in (({}, True), (SIMPLIFIED, False)):
        reply = client.get(path, **asked)
        assert (reply.status_code, reply.content.isascii()) == (400, is_english)
        assert reply.json()["type"].endswith(":unknown_parameter"), "programs read it"


def test_what_is_wrong_with_a_member_is_said_in_that_language_too(world, browse):
    """Also in the framework's own words, with their numbers, and in previews."""
    client = browse("root")
    table = world.lake_tables["orders"].pk

    def asked(path: str, body: dict[str, object], **more: str) -> str:
        reply = client.post(
            f"/api/v1/{path}", body, content_type="application/json", **more
        )
        return reply.content.decode()

    mute = {"on": "lake", "seconds": 60, "kind": "odd"}
    english = asked("alert-mutes", mute)
    chinese = asked("alert-mutes", mute, **SIMPLIFIED)
    assert "is not a valid choice" in english
    assert "odd" in chinese
    assert "is not a valid choice" not in chinese
    wrong = {"dry_run": 1}
    assert "'dry_run' must be true or false" in asked(f"tables/{table}:remove", wrong)
    assert "必须是 true 或 false" in asked(
        f"tables/{table}:remove", wrong, **SIMPLIFIED
    )
    preview = {"dry_run": True}
    assert "Stop syncing" in asked(f"tables/{table}:remove", preview)
    assert "停止" in asked(f"tables/{table}:remove", preview, **SIMPLIFIED)


def test_a_browser_that_asks_for_neither_gets_the_installations(client, settings):
    settings.LANGUAGE_CODE = "zh-hans"
    assert lang(client.get("/login", HTTP_ACCEPT_LANGUAGE="de")) == "zh-hans"


@pytest.mark.parametrize("wrong", [Chosen("tlh", ""), Chosen("", "Mars/Base")])
def test_what_does_not_exist_is_refused(world, wrong):
    with pytest.raises(InvalidRequest):
        save_preferences(User.objects.get(username="ann"), wrong)


@pytest.mark.parametrize("tab", ["health", "policy"])
def test_a_sentence_in_chinese_ends_with_its_own_full_stop(world, browse, tab):
    path = f"/tables/{world.lake_tables['orders'].pk}/{tab}"
    page = browse("root").get(path, **SIMPLIFIED).content.decode()
    text = strip_tags(page.partition("<main")[2])
    assert re.findall(r"[\u4e00-\u9fff]\.(?:\s|$)", text) == []
