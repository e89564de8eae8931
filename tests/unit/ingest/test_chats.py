"""What group chats are sent: within their limits, and nothing quoted becomes markup."""

from __future__ import annotations

import json

import pytest

from ingest.alerts import chat

EVIL = "<!channel> *x* [here](http://evil.example) <@all> & `y`"
URL = "https://sluice.example/tables/7"


def opened(name: str = "lake.shop.orders", message: str = "it stands still", **more):
    alert = {
        "kind": "stuck",
        "name": name,
        "message": message,
        "hint": "look",
        "first_seen_at": "2026-01-01T00:00:00Z",
        "count": 1,
        "url": URL,
    }
    return {"event": "opened", "alert": {**alert, **more}}


def ended():
    more = {"closed_at": "2026-01-02T00:00:00Z", "closed_reason": "its sync went well"}
    return {**opened(**more), "event": "recovered"}


def test_each_chat_gets_its_own_form() -> None:
    slack = chat.payload("slack", [opened()])
    assert [block["type"] for block in slack["blocks"]] == ["header", "section"]
    assert f"<{URL}|Open in Sluice>" in slack["blocks"][1]["text"]["text"]
    (teams,) = chat.payload("teams", [opened()])["attachments"]
    assert teams["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert teams["content"]["type"] == "AdaptiveCard"
    feishu = chat.payload("feishu", [opened()])
    assert feishu["msg_type"] == "interactive"
    for kind in ("dingtalk", "wecom"):
        plain = chat.payload(kind, [opened()])
        assert plain["msgtype"] == "text"
        assert plain["text"]["content"].splitlines() == [
            "Sluice: lake.shop.orders is stuck or broken",
            "it stands still",
            "Next step: look",
            "First seen 2026-01-01 00:00 UTC, 1 time(s).",
            URL,
        ]


def test_colours_of_feishu_follow_the_worst_that_opened() -> None:
    def tone(*bodies) -> str:
        return chat.payload("feishu", bodies)["card"]["header"]["template"]

    late = opened(kind="late")
    assert tone(ended(), late, opened()) == "red"
    assert tone(ended(), late) == "orange"
    assert tone(ended()) == "green"
    assert tone({"event": "test", "alert": None, "message": "hello"}) == "blue"


def test_what_is_quoted_stays_text() -> None:
    bodies = [opened(EVIL, EVIL)]
    slack = chat.payload("slack", bodies)
    title, section = (block["text"] for block in slack["blocks"])
    assert title["type"] == "plain_text"
    for marked in (slack["text"], section["text"]):
        assert "&lt;!channel&gt;" in marked
        assert "<!channel>" not in marked
        assert "<@all>" not in marked

    def kinds_around(value, name="") -> set[str]:
        """Of each object that quotes it."""
        if isinstance(value, list):
            return set().union(*(kinds_around(one) for one in value), set())
        if not isinstance(value, dict):
            return set()
        mine = {str(value.get("type") or value.get("tag"))}
        said = any(isinstance(v, str) and "evil.example" in v for v in value.values())
        inner = set().union(*(kinds_around(one) for one in value.values()), set())
        return inner | (mine if said else set())

    # a card's fallback is plain text, too
    assert kinds_around(chat.payload("teams", bodies)) <= {"TextRun", "AdaptiveCard"}
    assert kinds_around(chat.payload("feishu", bodies)) == {"plain_text"}


@pytest.mark.parametrize("kind", chat.CHATS)
def test_many_long_alerts_stay_within_what_the_chat_takes(kind) -> None:
    most = {"wecom": 2048, "feishu": 20_000, "dingtalk": 20_000, "teams": 28_000}
    bodies = [opened(f"lake.shop.表{n}", "数据" * 4000) for n in range(chat.HOLDS)]
    message = chat.payload(kind, bodies)
    text = json.dumps(message, ensure_ascii=False)
    if kind in ("wecom", "dingtalk"):
        text = message["text"]["content"]
    assert len(text.encode()) <= most.get(kind, 60_000)
    assert "lake.shop.表0" in text
    assert " more, on the page Alerts" in text
    for block in message.get("blocks", []):
        assert len(block["text"]["text"]) <= 3000
    assert len(message.get("blocks", [])) <= 50


def test_signatures_are_those_that_the_products_document() -> None:
    """Values from `openssl dgst -sha256 -hmac KEY -binary | base64`."""
    url, body = chat.signed("feishu", "https://f/x", "s3cret", 1599360473, {"a": 1})
    assert url == "https://f/x"
    assert body == {"timestamp": "1599360473", "sign": FEISHU, "a": 1}
    url, body = chat.signed("dingtalk", "https://d/x?access_token=t", "SECx", 1, {})
    assert url == f"https://d/x?access_token=t&timestamp=1000&sign={DINGTALK}"
    assert body == {}
    assert chat.signed("slack", "u", "s", 1, {}) == ("u", {})
    assert chat.signed("feishu", "u", "", 1, {}) == ("u", {})


FEISHU = "QQHOl6fWr0/7EF26jw8goDL6Cc0vHLHZYLDituMJB4s="
DINGTALK = "RQ%2F3mAnYUcXAHjmGnPKCONFkjFL8SG%2FYdWxezxqqRkY%3D"


@pytest.mark.parametrize(
    ("kind", "reply", "said"),
    [
        ("slack", b"ok", ""),
        ("teams", b"", ""),
        ("feishu", b'{"code": 0, "msg": "success"}', ""),
        ("feishu", b'{"StatusCode": 0, "StatusMessage": "success"}', ""),
        ("feishu", b'{"code": 19021, "msg": "sign match fail"}', "sign match fail"),
        ("dingtalk", b'{"errcode": 0, "errmsg": "ok"}', ""),
        ("dingtalk", b'{"errcode": 310000, "errmsg": "sign not match"}', "310000"),
        ("wecom", b'{"errcode": 93000, "errmsg": "invalid webhook url"}', "93000"),
        ("wecom", b"<html>", "not the JSON of a robot"),
        ("wecom", b"[]", "not the JSON of a robot"),
    ],
)
def test_a_refusal_that_comes_with_200(kind, reply, said) -> None:
    found = chat.refusal(kind, reply)
    assert (said in found) if said else found == ""
