"""How to ask the identity provider: settings as one value, and their faults. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from catalog.access.group_rules import GroupRules
from core.errors import AccessDenied, TransientError
from core.sentences import Sentence, as_sentence


@dataclass(frozen=True, slots=True)
class OidcSpec:
    """client_secret  empty = a public client, which PKCE alone protects"""

    issuer: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    label: str = "single sign-on"
    scopes: str = "openid profile email"
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    rules: GroupRules = field(default_factory=GroupRules)
    ca_file: str = ""
    allows_plaintext: bool = False
    session_seconds: int = 8 * 3600

    @property
    def provider(self) -> str:
        """The provider's name in identities and audit."""
        return f"oidc:{self.issuer}"

    def trusts(self, url: str) -> bool:
        """Whether the address may be sent a code or believed a key."""
        parts = urlsplit(url)
        allowed = {"https", "http"} if self.allows_plaintext else {"https"}
        return parts.scheme in allowed and bool(parts.hostname)

    def problems(self) -> Iterator[tuple[str, str]]:
        """(what is wrong, what to do), for the checks at start."""
        if not self.trusts(self.issuer):
            yield (
                f"'{self.issuer}' is not a safe address of an identity provider",
                "SLUICE_OIDC_ISSUER is https://…, exactly as the provider names itself",
            )
        if not self.client_id:
            yield (
                "SLUICE_OIDC_CLIENT_ID is empty",
                "register Sluice at the provider and set its client id",
            )
        if "openid" not in self.scopes.split():
            yield (
                "SLUICE_OIDC_SCOPES lacks openid",
                "add it: without it no one is named",
            )


class SignInRefused(AccessDenied):
    """What came back from the provider proves no user. `reason` goes to the audit."""

    default_code: ClassVar[str] = "sign_in_refused"

    def __init__(self, why: str, reason: str) -> None:
        super().__init__(
            Sentence("the sign-in was refused: %(why)s", why=as_sentence(why)),
            hint=Sentence("try again; if it stays so, tell an administrator"),
            facts={"reason": reason},
        )


class ProviderAway(TransientError):
    """The identity provider does not answer as it should; nothing was decided."""

    default_code: ClassVar[str] = "identity_provider_unavailable"

    def __init__(self, why: str) -> None:
        super().__init__(
            Sentence(
                "the identity provider cannot be asked: %(why)s", why=as_sentence(why)
            ),
            hint=Sentence("try again in a moment; local accounts keep working"),
        )
