"""An ID token counts by the right key, for us, now, and for this sign-in; else not."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.test import Client

from catalog.access.oidc_provider import provider_of
from tests.identity_provider import CLIENT, IdentityProvider
from tests.integration.frontend.sign_ins import expect_refusal, sign_in

pytestmark = pytest.mark.django_db
PEM, SubjectPublicKeyInfo = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "incomplete"),
        ({"exp": int(time.time()) - 120}, "expired"),
        ({"exp": None}, "incomplete"),
        ({"iat": int(time.time()) + 600}, "not_yet_valid"),
        ({"nbf": int(time.time()) + 600}, "not_yet_valid"),
        ({"aud": "another program"}, "audience"),
        ({"aud": [CLIENT, "another"]}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"azp": ""}, "azp"),
        ({"iss": "https://elsewhere.example"}, "issuer"),
        ({"sub": None}, "incomplete"),
        ({"preferred_username": None}, "invalid_name"),
        ({"preferred_username": "a b"}, "invalid_name"),
    ],
)
def test_a_wrong_token_is_refused_with_its_reason(client, provider, claims, reason):
    provider.claims |= claims
    expect_refusal(client, sign_in(client), reason)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"algorithm": "none"}, "algorithm"),
        ({"algorithm": "HS256"}, "algorithm"),
        ({"algorithm": "RS512"}, "algorithm"),  # the key says what it is for
        ({"signs_with": "second"}, "signature"),
        ({"kid": "second"}, "unknown_key"),
    ],
)
def test_a_signature_that_proves_nothing_is_refused(client, provider, knobs, reason):
    provider.__dict__.update(knobs)
    expect_refusal(client, sign_in(client), reason)


def public_pem(provider: IdentityProvider) -> bytes:
    return provider.key("first").public_key().public_bytes(PEM, SubjectPublicKeyInfo)


def b64(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_a_public_key_is_no_shared_secret(client, provider):
    """The classic confusion: HMAC by what everybody can read."""

    def forge(claims: dict[str, Any]) -> str:
        header = json.dumps({"alg": "HS256", "kid": "first", "typ": "JWT"})
        body = f"{b64(header)}.{b64(json.dumps(claims))}"
        return (
            f"{body}.{b64(hmac.digest(public_pem(provider), body.encode(), 'sha256'))}"
        )

    provider.forge = forge
    expect_refusal(client, sign_in(client), "algorithm")
    secret = {"kty": "oct", "kid": "shared", "k": b64(public_pem(provider))}
    provider.foreign = [secret]
    provider_of.cache_clear()
    expect_refusal(client, sign_in(client), "algorithm")


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "malformed"),
        ("a.b", "malformed"),
        ("客.户.端", "malformed"),
        (f"{b64('[]')}.{b64('{}')}.x", "malformed"),
        (f"{b64('{}')}.{b64('{}')}.x", "malformed"),
        (f"{b64(json.dumps({'alg': ['RS256']}))}.{b64('{}')}.x", "malformed"),
        (f"{b64(json.dumps({'alg': 'RS256', 'kid': 5}))}.{b64('{}')}.x", "malformed"),
        (
            f"{b64(json.dumps({'alg': 'RS256', 'crit': ['x']}))}.{b64('{}')}.x",
            "malformed",
        ),
        (
            f"{b64(json.dumps({'alg': 'RS256', 'kid': 'first'}))}.{b64('[]')}.",
            "signature",
        ),
        (
            f"{b64(json.dumps({'alg': 'RS256', 'crit': None}))}.{b64('{}')}.x",
            "malformed",
        ),
        ("x" * 100_001, "no_token"),
    ],
)
def test_what_is_no_token_is_refused(client, provider, token, reason):
    provider.forge = lambda _: token
    expect_refusal(client, sign_in(client), reason)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
    ],
)
def test_keys_of_every_kind_count_beside_some_that_cannot_be_read(
    client, provider, key, algorithm
):
    """The header is as long as one with the certificates of its key."""
    maker = jwt.get_algorithm_by_name(algorithm)
    public = json.loads(maker.to_jwk(key.public_key()))
    provider.foreign = [
        "no key",
        {"kty": "EC", "crv": "BP-256", "x": "AA", "y": "AA", "kid": "brainpool"},
        {"kty": "RSA", "kid": "broken"},
        {**public, "kid": "mine", "use": "enc"},
        {**public, "kid": "mine"},
    ]
    headers = {"kid": "mine", "x5c": ["x" * 6_000]}
    provider.forge = lambda claims: jwt.encode(claims, key, algorithm, headers=headers)
    assert sign_in(client).status_code == 302


def test_a_clock_that_differs_a_little_does_no_harm(client, provider):
    now = int(time.time())
    provider.claims |= {"exp": now - 20, "iat": now + 20}
    assert sign_in(client).status_code == 302


def test_new_keys_are_found_when_they_are_used(client, provider, monkeypatch):
    assert sign_in(client).status_code == 302
    provider.kid, provider.published = "second", ["first", "second"]
    monkeypatch.setattr("catalog.access.oidc_provider.NEW_KEYS_SECONDS", 0.0)
    assert sign_in(Client()).status_code == 302
    provider.kid = "first"
    assert sign_in(Client()).status_code == 302
    assert provider.asked.count("/keys") == 2


def test_an_unknown_key_is_looked_for_once_in_a_while(client, provider, monkeypatch):
    monkeypatch.setattr("catalog.access.oidc_provider.NEW_KEYS_SECONDS", 3600.0)
    provider.kid = "second"
    for _ in range(3):
        expect_refusal(client, sign_in(client), "unknown_key")
    assert provider.asked.count("/keys") == 1
    provider.published = ["second"]  # the first is revoked
    monkeypatch.setattr("catalog.access.oidc_provider.NEW_KEYS_SECONDS", 0.0)
    assert sign_in(client).status_code == 302
    assert provider.asked.count("/keys") == 2
    provider.kid = "first"
    assert sign_in(Client()).status_code == 403
    assert provider.asked.count("/keys") == 3
