"""One attempt at a web address: nobody is followed, waited for or taken at his word."""

from __future__ import annotations

import functools
import socket
import time
from typing import Any

from ingest.alerts import webhook
from tests.integration.discovery.tls_proxy import Authority
from tests.receivers import web_receiver

EGRESS = webhook.Egress(allowed=("127.0.0.0/8",), denied=("169.254.0.0/16",))


def sent(url: str, seconds: float = 30) -> webhook.Answer:
    message = {"delivery": "d"}
    return webhook.send(url, "secret", message, at=1, egress=EGRESS, seconds=seconds)


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


def test_nobody_is_followed_or_waited_for(web) -> None:
    web.status = 302
    assert "redirects" in sent(web.url).error
    assert web.paths == ["/hook"]
    web.drip = 0.2
    assert sent(web.url, 1).error == "no answer within 1 s"
    assert sent(web.url.replace("http:", "https:")).error
    closed = sent(web.url.replace(f":{port_of(web.url)}", ":1"))
    assert (closed.code, "refused" in closed.error.lower()) == (None, True)


def test_an_answer_may_take_longer_than_a_connection(web, monkeypatch) -> None:
    """A receiver that works before it answers would get the message again and again."""
    monkeypatch.setattr(webhook, "CONNECT_SECONDS", 0.5)
    web.before = functools.partial(time.sleep, 1.5)
    assert sent(web.url).code == 204


def test_an_answer_whose_body_has_no_end_is_none(web) -> None:
    """Whether it says how long the body is, or ends with the connection."""
    head = b"HTTP/1.1 200 OK\r\n"
    web.drip = 0.02
    for length in (b"", b"Content-Length: 3000\r\n"):
        web.dripped = head + length + b"\r\n" + b"a" * 3000
        found = sent(web.url, 2)
        assert (found.code, found.error) == (None, "no answer within 2 s")


def test_tls_is_spoken_with_who_proves_his_name(tmp_path, monkeypatch) -> None:
    authority = Authority(tmp_path, "authority")
    with web_receiver(authority.server_context()) as web:
        assert "not accepted" in sent(web.url).error
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
        assert sent(web.url).code == 204
        web.drip = 0.2
        assert sent(web.url, 1).error == "no answer within 1 s"
    with web_receiver(authority.server_context(host="other.example")) as web:
        assert "not accepted" in sent(web.url).error
        assert web.got == []


def test_a_name_that_changes_its_mind_leads_nowhere(web, monkeypatch) -> None:
    """Each attempt resolves anew, holds every answer against the policy, and connects
    to what it checked."""
    port = port_of(web.url)
    answers = [["127.0.0.1"], ["127.0.0.1", "169.254.169.254"], ["10.0.0.7"]]
    asked: list[str] = []
    to: list[Any] = []
    numeric, real = socket.getaddrinfo, socket.create_connection

    def resolve(host: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        if host[0].isdigit():
            return numeric(host, port, *rest, **more)
        asked.append(host)
        return [(2, 1, 6, "", (one, port)) for one in answers[len(asked) - 1]]

    def connect(address: tuple[str, int], *rest: Any) -> socket.socket:
        to.append(address)
        return real(address, *rest)

    monkeypatch.setattr(webhook.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(webhook.socket, "create_connection", connect)
    found = [sent(f"http://hooks.example:{port}/hook") for _ in answers]
    assert [one.code for one in found] == [204, None, None]
    assert web.got[0][0]["Host"] == f"hooks.example:{port}"
    assert (asked, to) == (["hooks.example"] * 3, [("127.0.0.1", port)])
    assert "169.254.169.254" in found[1].error
