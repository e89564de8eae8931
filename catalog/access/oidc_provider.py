"""The identity provider's own words: its configuration, its keys, tokens for codes.

Follows no redirect, reads no endless answer, believes no address that is not safe.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from authlib.oidc.discovery import OpenIDProviderMetadata, get_well_known_url
from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet, import_key

from catalog.access.oidc_spec import OidcSpec, ProviderAway, SignInRefused
from core.retries import CircuitBreaker
from core.sentences import Sentence

WAIT_SECONDS = 5.0
# While it is silent, sign-ins hold few threads of the web process, and not for long.
QUEUE_SECONDS, BREAKER_SECONDS = 2.0, 5.0
LONGEST_ANSWER = 1 << 20
KNOWN_FOR_SECONDS = 3600.0
# A token signed by a key we do not know makes us look for new keys, this often.
NEW_KEYS_SECONDS = 5.0
_NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_UNREADABLE = (JoseError, UnsupportedAlgorithm, LookupError, TypeError, ValueError)
log = logging.getLogger(__name__)
T = TypeVar("T")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(slots=True)
class _Known(Generic[T]):
    """What was read, and when."""

    value: T
    at: float = float("-inf")

    def is_fresh(self, seconds: float) -> bool:
        return time.monotonic() - self.at < seconds


class Provider:
    """One per process and spec; what it reads is kept for an hour."""

    def __init__(self, spec: OidcSpec) -> None:
        self.spec = spec
        self._configuration = _Known(OpenIDProviderMetadata())
        self._keys = _Known(KeySet([]))
        self._lock = threading.Lock()
        self._breaker = CircuitBreaker(BREAKER_SECONDS)
        context = ssl.create_default_context(cafile=spec.ca_file or None)
        self._opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=context)
        )

    def configuration(self) -> OpenIDProviderMetadata:
        """The discovery document, checked against the settings."""
        with self._turn():
            if not self._configuration.is_fresh(KNOWN_FOR_SECONDS):
                address = get_well_known_url(self.spec.issuer, external=True)
                found = OpenIDProviderMetadata(self._ask(address))
                _check(self.spec, found)
                self._configuration = _Known(found, time.monotonic())
            return self._configuration.value

    def keys(self, *, unknown: str | None = None) -> KeySet:
        """Its signing keys; read anew when `unknown` names a key they do not hold."""
        address = str(self.configuration()["jwks_uri"])
        with self._turn():
            is_lacking = unknown is not None and all(
                key.kid != unknown for key in self._keys.value
            )
            seconds = NEW_KEYS_SECONDS if is_lacking else KNOWN_FOR_SECONDS
            if not self._keys.is_fresh(seconds):
                keys = _signing_keys(self._ask(address))
                self._keys = _Known(keys, time.monotonic())
            return self._keys.value

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One call asks for what all need. ProviderAway for who would wait long."""
        if not self._lock.acquire(timeout=QUEUE_SECONDS):
            raise ProviderAway("others wait for its answer")
        try:
            yield
        finally:
            self._lock.release()

    def tokens_for(self, code: str, *, verifier: str, back: str) -> dict[str, Any]:
        """Exchange a code. SignInRefused when the provider does not know it."""
        spec, found = self.spec, self.configuration()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": spec.client_id,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        methods = found.get("token_endpoint_auth_methods_supported")
        if spec.client_secret and methods and "client_secret_basic" not in methods:
            form["client_secret"] = spec.client_secret
        elif spec.client_secret:
            pair = f"{quote(spec.client_id, '')}:{quote(spec.client_secret, '')}"
            coded = base64.b64encode(pair.encode()).decode()
            headers["Authorization"] = f"Basic {coded}"
        return self._ask(
            str(found["token_endpoint"]), body=urlencode(form), headers=headers
        )

    def claims_of(self, access_token: str) -> dict[str, Any]:
        """More claims from the userinfo endpoint; none when there is no such."""
        address = str(self.configuration().get("userinfo_endpoint") or "")
        if not address or not access_token:
            return {}
        return self._ask(address, headers={"Authorization": f"Bearer {access_token}"})

    def _ask(
        self,
        url: str,
        *,
        body: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        if not self.spec.trusts(url):
            raise ProviderAway("it names an address that is not https")
        if not self._breaker.allows(time.monotonic()):
            raise ProviderAway("it did not answer a moment ago")
        data = None if body is None else body.encode()
        wanted = {"Accept": "application/json", **(headers or {})}
        request = urllib.request.Request(url, data=data, headers=wanted)
        try:
            with self._opener.open(request, timeout=WAIT_SECONDS) as reply:
                raw = reply.read(LONGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            with error:
                if body is not None and error.code in {400, 401, 403}:
                    raise SignInRefused(
                        "the provider does not accept its own code, or our client",
                        f"token_endpoint_{error.code}",
                    ) from None
                raise ProviderAway(
                    Sentence("it answers %(status)s", status=error.code)
                ) from None
        except (OSError, ValueError) as error:
            self._breaker.fail(time.monotonic())
            why = getattr(error, "reason", error)
            raise ProviderAway(
                Sentence("it cannot be reached: %(error)s", error=why)
            ) from error
        return _as_object(raw)


@lru_cache(maxsize=4)
def provider_of(spec: OidcSpec) -> Provider:
    return Provider(spec)


def _as_object(raw: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(raw) if len(raw) <= LONGEST_ANSWER else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ProviderAway("its answer is not a JSON object")
    return answer


def _check(spec: OidcSpec, found: OpenIDProviderMetadata) -> None:
    """That it is the provider's own, and each address safe.

    OpenIDProviderMetadata.validate() compares no issuer, and refuses providers that
    work, such as those that do not sign by RS256.
    """
    if found.get("issuer") != spec.issuer:
        raise ProviderAway("it names itself otherwise than SLUICE_OIDC_ISSUER does")
    for name in _NEEDED:
        if not spec.trusts(str(found.get(name, ""))):
            raise ProviderAway(
                Sentence("its configuration has no safe %(name)s", name=name)
            )


def _signing_keys(document: dict[str, Any]) -> KeySet:
    """Its public keys for signatures, without those of a kind that cannot be read.

    One by one: KeySet.import_key_set fails as a whole when one key's curve is unknown.
    """
    found = document.get("keys")
    keys: list[Key] = []
    for data in found if isinstance(found, list) else []:
        if not isinstance(data, dict) or data.get("use", "sig") != "sig":
            continue
        if data.get("kty") == "oct":
            continue
        try:
            keys.append(import_key(data))
        except _UNREADABLE as error:
            kid, why = data.get("kid"), type(error).__name__
            log.warning("the identity provider's key %r cannot be read: %s", kid, why)
    return KeySet(keys)
