"""Messages as Slack, Teams, Feishu, DingTalk and WeCom document them, in the active
language. Pure but for that.

What a message quotes (names of tables, errors of a source) goes where the chat takes
plain text, or is escaped: it never becomes a link, a mention or a style.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

from core.sentences import Sentence
from core.translation import translated
from ingest.alerts.messages import Body, headline, lines_of, subject
from ingest.alerts.rules import OPENED, SEVERITY, TEST

SLACK, TEAMS, FEISHU = "slack", "teams", "feishu"
DINGTALK, WECOM = "dingtalk", "wecom"
CHATS: Final = (SLACK, TEAMS, FEISHU, DINGTALK, WECOM)
# Those whose robots may check a signature.
SIGNED: Final = (FEISHU, DINGTALK)

Payload = dict[str, Any]
# One message tells many; a chat takes about 20 messages a minute.
HOLDS: Final = 20
# Bytes of text: below what the chats document (WeCom 2,048; Feishu and DingTalk 20 KB;
# Teams 28 KB; Slack 3,000 characters a section).
ROOM: Final = {SLACK: 20_000, TEAMS: 15_000, FEISHU: 12_000, DINGTALK: 12_000}
LEAST_ROOM: Final = 1_900
LONGEST_PART: Final = 1_200
OPEN: Final = Sentence("Open in Sluice")
TONES: Final = {"critical": "red", "warning": "orange", "": "blue"}
ENDED: Final = "green"


def payload(kind: str, bodies: Sequence[Body]) -> Payload:
    """The JSON for the robot of that chat. bodies: those of `messages`, 1 or more."""
    return _MAKERS[kind](bodies)


def signed(
    kind: str, url: str, secret: str, at: int, message: Payload
) -> tuple[str, Payload]:
    """Address and message of one attempt. at: seconds since 1970; secret "" = none."""
    if not secret or kind not in SIGNED:
        return url, message
    if kind == DINGTALK:
        stamp = str(at * 1000)
        text = f"{stamp}\n{secret}".encode()
        sign = _base64(hmac.new(secret.encode(), text, hashlib.sha256))
        joint = "&" if "?" in url else "?"
        return f"{url}{joint}{urlencode({'timestamp': stamp, 'sign': sign})}", message
    # Feishu keys an empty message with both
    key = f"{at}\n{secret}".encode()
    sign = _base64(hmac.new(key, b"", hashlib.sha256))
    return url, {"timestamp": str(at), "sign": sign, **message}


def refusal(kind: str, reply: bytes) -> str:
    """Why the chat did not take the message, "" = it did: three of them answer 200 and
    tell it in their body."""
    names = {FEISHU: ("code", "msg"), DINGTALK: ("errcode", "errmsg")}
    names[WECOM] = names[DINGTALK]
    if kind not in names:
        return ""
    code, said = names[kind]
    try:
        answer = json.loads(reply)
        value = answer.get(code, answer.get("StatusCode"))
    except (ValueError, AttributeError):
        return Sentence("its answer is not the JSON of a robot: check the address")
    if value == 0:
        return ""
    return Sentence(
        "it refused the message: %(code)s %(value)s, %(why)s",
        code=code,
        value=str(value)[:100],
        why=str(answer.get(said, ""))[:300],
    )


def _base64(mac: hmac.HMAC) -> str:
    return base64.b64encode(mac.digest()).decode()


def _slack(bodies: Sequence[Body]) -> Payload:
    blocks: list[Payload] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": subject(bodies)[:150]},
        }
    ]
    for body, lines in _parts(bodies, ROOM[SLACK]):
        first, *others = map(_slack_text, lines)
        place = quote(body["url"], safe=_IN_URL)
        link = f"\n<{place}|{translated(OPEN)}>" if place else ""
        text = "\n".join([f"*{first}*", *others]) + link
        section = {"type": "mrkdwn", "text": text, "verbatim": True}
        blocks.append({"type": "section", "text": section})
    return {"text": _slack_text(subject(bodies)), "blocks": blocks}


# `<`, `>` and `|` would end a link of Slack
_IN_URL: Final = ":/?&=%#+,;@~.-_"


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(bodies: Sequence[Body]) -> Payload:
    """An adaptive card. Its text runs are plain; its text blocks would be markdown."""
    parts: list[Payload] = []
    for body, (first, *others) in _parts(bodies, ROOM[TEAMS]):
        head: Payload = {"type": "TextRun", "text": first, "weight": "Bolder"}
        parts.append(_runs(head))
        parts += [_runs({"type": "TextRun", "text": line}) for line in others]
        if body["url"]:
            action = {"type": "Action.OpenUrl", "url": body["url"]}
            link = {"type": "TextRun", "text": translated(OPEN), "selectAction": action}
            parts.append(_runs(link))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": subject(bodies),
        "body": parts,
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _runs(run: Payload) -> Payload:
    return {"type": "RichTextBlock", "inlines": [run]}


def _feishu(bodies: Sequence[Body]) -> Payload:
    elements: list[Payload] = []
    for body, lines in _parts(bodies, ROOM[FEISHU]):
        text = {"tag": "plain_text", "content": "\n".join(lines)}
        elements.append({"tag": "div", "text": text})
        if body["url"]:
            word = {"tag": "plain_text", "content": translated(OPEN)}
            button = {"tag": "button", "text": word, "url": body["url"]}
            elements.append(
                {"tag": "action", "actions": [{**button, "type": "default"}]}
            )
    head = {"tag": "plain_text", "content": subject(bodies)}
    return {
        "msg_type": "interactive",
        "card": {
            "config": {"wide_screen_mode": True},
            "header": {"title": head, "template": _tone(bodies)},
            "elements": elements,
        },
    }


def _tone(bodies: Sequence[Body]) -> str:
    if all(body["event"] not in (OPENED, TEST) for body in bodies):
        return ENDED
    found = {
        SEVERITY[body["alert"]["kind"]]
        for body in bodies
        if body["event"] == OPENED and body["alert"]
    }
    return next((TONES[name] for name in TONES if name in found), TONES[""])


def _plain(bodies: Sequence[Body], room: int) -> Payload:
    """With the title above, which has the word that a robot may demand. DingTalk's
    markdown has no way to quote a name."""
    skipped = 1 if len(bodies) == 1 else 0
    parts = [
        "\n".join([*lines[skipped:], body["url"]]).strip()
        for body, lines in _parts(bodies, room)
    ]
    joint = "\n" if skipped else "\n\n"
    content = joint.join([subject(bodies), *parts])
    return {"msgtype": "text", "text": {"content": content}}


def _parts(bodies: Sequence[Body], room: int) -> Iterator[tuple[Payload, list[str]]]:
    """Each body with its lines, as many as there is room for; the rest as a number."""
    room -= 300  # title, and the line about the rest
    longest = min(LONGEST_PART, room // min(len(bodies), 4))
    for index, body in enumerate(bodies):
        lines = _cut([headline(body), *lines_of(body)], longest)
        url = str((body["alert"] or {}).get("url", ""))
        room -= len("\n".join([*lines, url]).encode()) + 2
        if room < 0:
            more = len(bodies) - index
            rest = Sentence("… and %(count)s more, on the page Alerts", count=more)
            yield {"url": ""}, [translated(rest)]
            return
        yield {"url": url}, lines


def _cut(lines: Sequence[str], most: int) -> list[str]:
    """At most so many bytes of UTF-8."""
    kept = []
    for line in lines:
        raw = line.encode()
        if len(raw) > most:
            kept.append(raw[: max(0, most - 3)].decode(errors="ignore") + "…")
            return kept
        kept.append(line)
        most -= len(raw) + 1
    return kept


_MAKERS: Final[Mapping[str, Callable[[Sequence[Body]], Payload]]] = {
    SLACK: _slack,
    TEAMS: _teams,
    FEISHU: _feishu,
    DINGTALK: partial(_plain, room=ROOM[DINGTALK]),
    WECOM: partial(_plain, room=LEAST_ROOM),
}
