"""Whether an ID token is the provider's word about this sign-in: every check there is.

Only signatures by public keys count; which algorithm checks one is decided by the key
and our list, never by the token alone.
"""

from __future__ import annotations

import hmac
from typing import Any

import jwt

from catalog.access.oidc_provider import Provider
from catalog.access.oidc_spec import ProviderAway, SignInRefused

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
    | {"ES256", "ES384", "ES512", "EdDSA"}
)
LONGEST_TOKEN = 100_000
_NEEDED = ["iss", "sub", "aud", "exp", "iat", "nonce"]
_REASONS: tuple[tuple[type[jwt.PyJWTError], str, str], ...] = (
    (jwt.ExpiredSignatureError, "the token has expired", "expired"),
    (jwt.ImmatureSignatureError, "the token is not valid yet", "not_yet_valid"),
    (jwt.InvalidAudienceError, "the token is for another program", "audience"),
    (jwt.InvalidIssuerError, "the token is another provider's", "issuer"),
    (jwt.MissingRequiredClaimError, "the token is incomplete", "incomplete"),
    (jwt.InvalidAlgorithmError, "the token's signature is of no use", "algorithm"),
    (jwt.InvalidSignatureError, "the token's signature is wrong", "signature"),
)


def verified_claims(provider: Provider, token: object, *, nonce: str) -> dict[str, Any]:
    """The claims of a token that holds. SignInRefused with the reason otherwise."""
    spec = provider.spec
    if not isinstance(token, str) or len(token) > LONGEST_TOKEN:
        raise SignInRefused("the provider sent no ID token", "no_token")
    try:
        claims = jwt.decode(
            token,
            _key_for(provider, token),
            algorithms=sorted(ALGORITHMS),
            audience=spec.client_id,
            issuer=spec.issuer,
            leeway=spec.leeway_seconds,
            options={"require": _NEEDED},
        )
    except jwt.PyJWTError as error:
        raise _refusal(error) from None
    if not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
        raise SignInRefused("the token belongs to another sign-in", "nonce")
    audience = claims["aud"]
    is_shared = isinstance(audience, list) and len(audience) > 1
    if claims.get("azp", None if is_shared else spec.client_id) != spec.client_id:
        raise SignInRefused("the token was made for another program", "azp")
    return claims


def _key_for(provider: Provider, token: str) -> jwt.PyJWK:
    """The key that the token names, as a key of the algorithm it is for."""
    header = jwt.get_unverified_header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise jwt.InvalidAlgorithmError
    keys = provider.keys(unknown=None if kid is None else str(kid))
    fitting = [key for key in keys if kid is None or key.get("kid") == kid]
    if len(fitting) != 1:
        raise SignInRefused("the token is signed by an unknown key", "unknown_key")
    if fitting[0].get("alg", algorithm) != algorithm:
        raise jwt.InvalidAlgorithmError
    try:
        return jwt.PyJWK(fitting[0], algorithm=algorithm)
    except jwt.PyJWTError as error:
        raise ProviderAway("one of its keys cannot be read") from error


def _refusal(error: jwt.PyJWTError) -> SignInRefused:
    for kind, why, reason in _REASONS:
        if isinstance(error, kind):
            return SignInRefused(why, reason)
    return SignInRefused("the token cannot be read", "malformed")
