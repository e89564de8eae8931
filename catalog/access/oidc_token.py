"""Whether an ID token is the provider's word about this sign-in: every check there is.

Authlib decodes the token and validates signature and claims. Its defaults are wider:
this module sets which algorithms and claims count, and names each refusal.
"""

from __future__ import annotations

from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import errors, jwt
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import GuestProtocol, Key
from joserfc.jws import JWSRegistry

from catalog.access.oidc_provider import Provider
from catalog.access.oidc_spec import SignInRefused

# Only signatures by public keys count.
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
    | {"ES256", "ES384", "ES512", "EdDSA"}
)
LONGEST_TOKEN = 100_000
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
        claims.validate(leeway=spec.leeway_seconds)
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
