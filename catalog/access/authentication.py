"""Who is knocking: user name with password or token, or a bare bearer token.

One way in for REST, UI and gateway. A value that starts with `slt_` is checked
against tokens only, any other against passwords only: the user's own, or the
directory's for a name that is no local user's. Failures all look alike, are throttled
per name and address, and are audited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef

from catalog.access import audit, ldap_login, throttle
from catalog.access.policy import Principal
from catalog.access.principals import group_names_of, principal_of, users_with_groups
from catalog.access.proofs import Proof, sum_of
from catalog.access.tokens import PREFIX, find_token
from catalog.models import ExternalIdentity
from core.context import current
from core.errors import AccessDenied

LONGEST_SECRET = 1_000
AUDITED_FAILURES = 20
_BEARER = "(token)"


@dataclass(frozen=True, slots=True)
class Proven:
    """A caller who is who they say, with their row. `proof` is what must stay true for
    the login to stay valid."""

    row: User
    principal: Principal
    proof: Proof

    @property
    def name(self) -> str:
        return self.principal.name


def prove_to_stay(token: str, *, door: str, address: str) -> Proven:
    """`prove_bearer`, for doors that keep the caller logged in."""
    proven = prove_bearer(token, door=door, address=address)
    _audit(proven.name, door, address)
    return proven


def prove(username: str, secret: str, *, door: str, address: str = "") -> Proven:
    """The user proven by password or token.

    Raises AccessDenied with code `bad_credentials`, `login_refused` (proven, but may
    not come in) or `too_many_attempts` with the fact `retry_after_seconds`; and what
    `ldap_login` raises when the directory cannot be asked.
    """
    address = (address or current().address)[:64]
    if not _is_sane(username, 150) or not _is_sane(secret, LONGEST_SECRET):
        raise _refusal()
    # a directory takes ANN for ann: spellings must not multiply the tries
    slate = username.casefold()[:150]
    _require_patience(slate, address)
    if secret.startswith(PREFIX):
        proven = _by_token(secret, username)
    else:
        proven = _by_password(username, secret, door=door, address=address)
    if proven is None:
        _note_failure(slate, door, address)
        raise _refusal()
    throttle.forget_failures(slate, address)
    _audit(proven.name, door, address)
    return proven


def prove_bearer(token: str, *, door: str, address: str = "") -> Proven:
    """The owner of a bearer token; successes are not audited (each call has one).

    A wrong token never blocks a right one from the same address: the secret is
    too long to guess, so only the audit of failures is bounded.
    """
    proven = _by_token(token, None) if len(token) <= LONGEST_SECRET else None
    if proven is None:
        _note_failure(_BEARER, door, (address or current().address)[:64])
        raise _refusal()
    return proven


def _by_token(token: str, username: str | None) -> Proven | None:
    row = find_token(token)
    if row is None or (username is not None and row.user.username != username):
        return None
    return _proven(row.user, group_names_of(row), token_id=row.pk)


def _by_password(
    username: str, password: str, *, door: str, address: str
) -> Proven | None:
    is_external = Exists(ExternalIdentity.objects.filter(user=OuterRef("pk")))
    rows = users_with_groups()
    row = rows.filter(username=username).exclude(is_external).first()
    if row is None and ldap_login.is_enabled():
        found = _by_directory(username, password, door=door, address=address)
        if found is None:
            return None
        row = rows.get(pk=found.pk)
    elif row is None:
        make_password(password)  # costs what a check costs: no telling by time
        return None
    elif not check_password(password, row.password) or not row.is_active:
        return None
    return _proven(row, group_names_of(row), password_sum=sum_of(row.password))


def _by_directory(
    username: str, password: str, *, door: str, address: str
) -> User | None:
    try:
        return ldap_login.log_in(username, password)
    except AccessDenied as refused:  # proven, so the reason may be told
        _audit(username, door, address, is_allowed=False, **refused.facts)
        raise


def _proven(
    row: User,
    groups: list[str],
    *,
    token_id: int | None = None,
    password_sum: str = "",
) -> Proven:
    proof = Proof(row.pk, token_id, password_sum)
    return Proven(row, principal_of(row, groups), proof)


def _require_patience(username: str, address: str) -> None:
    wait = throttle.seconds_to_wait(username, address)
    if wait > 0:
        raise AccessDenied(
            "too many failed logins",
            seconds=int(wait) + 1,
            code="too_many_attempts",
            hint="try again in %(seconds)s s",
            facts={"retry_after_seconds": int(wait) + 1},
        )


def _note_failure(username: str, door: str, address: str) -> None:
    failures = throttle.count_failure(username, address)
    if failures <= AUDITED_FAILURES:
        _audit(username, door, address, is_allowed=False, failures=failures)


def _audit(
    name: str, door: str, address: str, *, is_allowed: bool = True, **facts: Any
) -> None:
    about = {"actor": name, "on": name, "door": door, "address": address}
    audit.record("login", is_allowed=is_allowed, **about, **facts)


def _is_sane(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and "\x00" not in text


def _refusal() -> AccessDenied:
    return AccessDenied(
        "user name, password or token is not right",
        code="bad_credentials",
        hint="a token starts with slt_ and may have expired or been revoked",
    )
