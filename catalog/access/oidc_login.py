"""Sign in at an identity provider: send the browser there, judge what comes back.

Authorization code with PKCE, state and nonce. What one sign-in needs to remember is a
`Departure`, which the caller keeps with that very browser, out of others' reach.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authlib.common.urls import add_params_to_uri
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from django.contrib.auth.models import User
from joserfc import errors, jwt
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import GuestProtocol, Key
from joserfc.jws import JWSRegistry

from catalog.access import audit, throttle
from catalog.access.authentication import AUDITED_FAILURES
from catalog.access.external_users import ExternalPerson, admit
from catalog.access.oidc_provider import Provider, provider_of
from catalog.access.oidc_spec import OidcSpec, SignInRefused
from core.context import current
from core.errors import AccessDenied
from core.sentences import Sentence

# Authlib decodes the token and validates signature and claims. Its defaults are wider,
# so what counts is named here. Only signatures by public keys do.
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
    | {"ES256", "ES384", "ES512", "EdDSA"}
)
LONGEST_TOKEN = 100_000
# by which the provider's clock may differ from ours
LEEWAY_SECONDS = 60
_UNREADABLE = ("the token cannot be read", "malformed")
_USELESS = ("the token's signature is of no use", "algorithm")
_BY_ERROR: tuple[tuple[type[errors.JoseError], tuple[str, str]], ...] = (
    (errors.ExpiredTokenError, ("the token has expired", "expired")),
    (
        errors.InvalidKeyIdError,
        ("the token is signed by an unknown key", "unknown_key"),
    ),
    (errors.BadSignatureError, ("the token's signature is wrong", "signature")),
    (errors.UnsupportedAlgorithmError, _USELESS),
    (errors.KeyParameterError, _USELESS),
    (errors.InvalidKeyCurveError, _USELESS),
)
_BY_CLAIM = {
    "iss": ("the token is another provider's", "issuer"),
    "aud": ("the token is for another program", "audience"),
    "azp": ("the token was made for another program", "azp"),
    "nonce": ("the token belongs to another sign-in", "nonce"),
    "iat": ("the token is not valid yet", "not_yet_valid"),
    "nbf": ("the token is not valid yet", "not_yet_valid"),
}


class _Signatures(JWSRegistry):
    """Our algorithms and no other; a header may hold the certificates of its key."""

    max_header_length = 16_384

    def get_alg(self, name: str) -> JWSAlgModel:
        # the library's own check warns of EdDSA, to which RFC 9864 gives other names
        if name not in ALGORITHMS:
            raise errors.UnsupportedAlgorithmError
        return self.algorithms[name]


_SIGNATURES = _Signatures(strict_check_header=False)


def verified_claims(provider: Provider, token: object, *, nonce: str) -> dict[str, Any]:
    """The claims of an ID token that holds. SignInRefused with the reason otherwise."""
    spec = provider.spec
    if not isinstance(token, str) or len(token) > LONGEST_TOKEN:
        raise SignInRefused("the provider sent no ID token", "no_token")

    def key_of(signature: GuestProtocol) -> Key:
        kid = signature.headers().get("kid")
        return provider.keys(unknown=kid).get_by_kid(kid)

    try:
        proven = jwt.decode(token, key_of, registry=_SIGNATURES)
        claims = CodeIDToken(
            proven.claims,
            proven.header,
            {
                "iss": {"essential": True, "value": spec.issuer},
                "aud": {"essential": True, "value": spec.client_id},
                "sub": {"essential": True},
            },
            {"nonce": nonce, "client_id": spec.client_id},
        )
        claims.validate(leeway=LEEWAY_SECONDS)
        # Authlib passes over an empty one, which names no program of ours
        if claims.get("azp", spec.client_id) != spec.client_id:
            raise errors.InvalidClaimError("azp")
    except errors.JoseError as error:
        raise SignInRefused(*_why(error)) from None
    except (LookupError, TypeError, ValueError):
        # a header whose values are of types that the library does not expect
        raise SignInRefused(*_UNREADABLE) from None
    return dict(claims)


def _why(error: errors.JoseError) -> tuple[str, str]:
    """In words, and the reason that the audit keeps."""
    for kind, why in _BY_ERROR:
        if isinstance(error, kind):
            return why
    if isinstance(error, errors.MissingClaimError) and error.claim != "azp":
        return "the token is incomplete", "incomplete"
    claim = error.claim if isinstance(error, errors.ClaimError) else ""
    return _BY_CLAIM.get(claim, _UNREADABLE)


_ANYBODY = "(single sign-on)"


@dataclass(frozen=True, slots=True)
class Departure:
    """state     comes back with the answer: it is for this browser
    nonce     comes back inside the token: it is for this sign-in
    verifier  makes the code useless to who stole it
    """

    state: str
    nonce: str
    verifier: str


def depart(spec: OidcSpec, *, back: str) -> tuple[str, Departure]:
    """Where to send the browser, and what to remember. `back` is our own address."""
    leaving = Departure(*(secrets.token_urlsafe(32) for _ in range(3)))
    address: str = prepare_grant_uri(
        provider_of(spec).configuration()["authorization_endpoint"],
        spec.client_id,
        "code",
        redirect_uri=back,
        scope=spec.scopes,
        state=leaving.state,
        nonce=leaving.nonce,
        code_challenge=create_s256_code_challenge(leaving.verifier),
        code_challenge_method="S256",
    )
    return address, leaving


def arrive(
    spec: OidcSpec, leaving: Departure, answer: Mapping[str, str], *, back: str
) -> User:
    """The active user whom the provider's answer proves.

    SignInRefused, AccessDenied (proven, but may not come in) or ProviderAway.
    """
    try:
        user = admit(_person(spec, leaving, answer, back))
    except AccessDenied as refused:
        _note_refusal(spec, refused)
        raise
    audit.record(
        "login", actor=user.username, door="web", on=user.username, via=spec.provider
    )
    return user


def logout_url(spec: OidcSpec, *, back: str) -> str:
    """Where the provider's own session is ended; "" when it offers no such place."""
    address = str(provider_of(spec).configuration().get("end_session_endpoint") or "")
    if not spec.trusts(address):
        return ""
    query = [("client_id", spec.client_id), ("post_logout_redirect_uri", back)]
    return str(add_params_to_uri(address, query))


def _person(
    spec: OidcSpec, leaving: Departure, answer: Mapping[str, str], back: str
) -> ExternalPerson:
    _require_own_answer(spec, leaving, answer)
    provider = provider_of(spec)
    tokens = provider.tokens_for(answer["code"], verifier=leaving.verifier, back=back)
    claims = verified_claims(provider, tokens.get("id_token"), nonce=leaving.nonce)
    claims = _completed(provider, claims, tokens)
    if spec.name_claim == "email" and claims.get("email_verified") is False:
        raise SignInRefused("your mail address is not verified there", "unverified")
    return ExternalPerson(
        provider=spec.provider,
        subject=str(claims["sub"]),
        name=str(claims.get(spec.name_claim) or "").strip().lower(),
        membership=spec.rules.read(_groups(claims.get(spec.groups_claim))),
    )


def _require_own_answer(
    spec: OidcSpec, leaving: Departure, answer: Mapping[str, str]
) -> None:
    """To be asked before anything in the answer is believed."""
    state = answer.get("state", "").encode()
    if not hmac.compare_digest(state, leaving.state.encode()):
        raise SignInRefused("the answer is for another browser or sign-in", "state")
    if answer.get("iss", spec.issuer) != spec.issuer:
        raise SignInRefused("the answer is another provider's", "answer_issuer")
    if answer.get("error"):
        raise SignInRefused(
            Sentence("the provider says '%(error)s'", error=answer["error"][:60]),
            "provider_error",
        )
    if not answer.get("code"):
        raise SignInRefused("the provider sent no code", "no_code")


def _completed(
    provider: Provider, claims: dict[str, Any], tokens: dict[str, Any]
) -> dict[str, Any]:
    """Some providers tell names and groups only at their userinfo endpoint."""
    spec = provider.spec
    if spec.name_claim in claims and spec.groups_claim in claims:
        return claims
    more = provider.claims_of(str(tokens.get("access_token") or ""))
    if more and more.get("sub") != claims["sub"]:
        raise SignInRefused("the provider names another user", "userinfo_subject")
    return {**more, **claims}


def _groups(claim: object) -> list[str]:
    if isinstance(claim, str):
        return [claim]
    if isinstance(claim, list):
        return [name for name in claim if isinstance(name, str)]
    return []


def _note_refusal(spec: OidcSpec, refused: AccessDenied) -> None:
    """Audited, but not without end: anybody can send such answers."""
    address = current().address
    if throttle.count_failure(_ANYBODY, address) <= AUDITED_FAILURES:
        audit.record(
            "login",
            actor=_ANYBODY,
            door="web",
            on=_ANYBODY,
            is_allowed=False,
            address=address,
            via=spec.provider,
            **refused.facts,
        )
