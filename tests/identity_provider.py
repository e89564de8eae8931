"""A small OpenID provider on loopback that signs for real, with knobs to do it wrong.

It checks what a good provider checks: client secret, one use of a code, PKCE.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "sluice", "the client's secret"


@dataclass
class IdentityProvider:
    """`claims` say who is logged in there; the rest are knobs.

    claims     of the ID token, on top of the right ones (None removes a claim)
    userinfo   what the userinfo endpoint tells; None = there is no such endpoint
    algorithm  what it signs with; "none" and "HS256" are the classic tricks
    forge      makes an ID token of the claims, in place of signing them
    foreign    keys that it publishes besides its own, as they are
    elsewhere  paths that it redirects, and where to
    """

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] | None = None
    algorithm: str = "RS256"
    kid: str = "first"
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    published: list[str] = field(default_factory=lambda: ["first"])
    configuration: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    signs_with: str = ""
    forge: Callable[[dict[str, Any]], str] | None = None
    foreign: list[Any] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/leave",
        }
        if self.userinfo is not None:
            found["userinfo_endpoint"] = f"{self.issuer}/userinfo"
        return {**found, **self.configuration}

    def key_set(self) -> dict[str, Any]:
        keys = []
        for kid in self.published:
            body = json.loads(RSAAlgorithm.to_jwk(self.key(kid).public_key()))
            keys.append({**body, "kid": kid, "use": "sig", "alg": "RS256"})
        return {"keys": [*self.foreign, *keys]}

    def key(self, kid: str) -> rsa.RSAPrivateKey:
        if kid not in self.keys:
            self.keys[kid] = rsa.generate_private_key(65537, 2048)
        return self.keys[kid]

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser of the logged-in person goes."""
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def redeem(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        asked = self.codes.pop(form.get("code", ""), None)
        pair = f"{CLIENT}:{quote(SECRET, safe='')}".encode()
        right = f"Basic {base64.b64encode(pair).decode()}"
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or authorization != right
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return None
        return {"access_token": "for userinfo", "id_token": self._token(asked["nonce"])}

    def _token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "1234",
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": nonce,
            **self.claims,
        }
        told = {name: value for name, value in claims.items() if value is not None}
        if self.forge:
            return self.forge(told)
        key: Any = self.key(self.signs_with or self.kid)
        if self.algorithm == "none":
            key = None
        elif self.algorithm.startswith("HS"):
            key = "a key of thirty-two characters, at least"
        return jwt.encode(told, key, self.algorithm, headers={"kid": self.kid})


@contextlib.contextmanager
def running_provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            provider.asked.append(parts.path)
            if parts.path in provider.elsewhere:
                self._reply(302, None, Location=provider.elsewhere[parts.path])
                return
            if parts.path == "/authorize":
                query = {k: v[0] for k, v in parse_qs(parts.query).items()}
                self._reply(302, None, Location=provider.authorize(query))
                return
            known = {
                "/.well-known/openid-configuration": provider.document,
                "/keys": provider.key_set,
                "/userinfo": lambda: provider.userinfo,
            }
            self._reply(200, known[parts.path]())

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            form = {k: v[0] for k, v in parse_qs(raw.decode()).items()}
            body = provider.redeem(form, self.headers.get("Authorization", ""))
            self._reply(200 if body else 400, body or {"error": "invalid_grant"})

        def _reply(self, status: int, body: Any, **headers: str) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
