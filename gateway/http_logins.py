"""Who is logged in over HTTP, where each request proves itself anew.

A proven name and password (or token) is remembered for a while under a keyed sum, so
that requests cost no password's hash; a cookie names the same login. Both open nothing
once what proved the user has lapsed, or the process has ended. Must not know HTTP.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from catalog.access.proofs import Proof

MOST_REMEMBERED = 10_000
# no user's name has a NUL
BEARER, _COOKIE = "\0bearer", "\0cookie"


@dataclass(frozen=True, slots=True)
class Login:
    """A proven user. `id` is what the cookie names; `ends` is of the clock given."""

    id: str
    user: str
    proof: Proof
    ends: float


class HttpLogins:
    """The latest logins of this process, each for `seconds`."""

    def __init__(
        self, seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._by_sum: OrderedDict[str, Login] = OrderedDict()
        self._by_id: dict[str, Login] = {}

    def remember(self, name: str, secret: str, *, user: str, proof: Proof) -> Login:
        """Count this name and secret as right from now on."""
        login = Login(
            secrets.token_urlsafe(16), user, proof, self._clock() + self._seconds
        )
        found = self._sum(name, secret)
        self._forget(found)
        self._by_sum[found] = self._by_id[login.id] = login
        if len(self._by_sum) > MOST_REMEMBERED:
            self._forget(next(iter(self._by_sum)))
        return login

    def by_secret(self, name: str, secret: str) -> Login | None:
        """Return the login that this name and secret made; a token's is BEARER."""
        return self._living(self._by_sum.get(self._sum(name, secret)))

    def by_cookie(self, cookie: str) -> Login | None:
        """Return the login that a cookie of ours names; None for any other text."""
        found = self._by_id.get(cookie.partition(".")[0])
        if found is None:
            return None
        given = cookie.encode(errors="surrogatepass")
        is_ours = hmac.compare_digest(given, self.cookie_of(found).encode())
        return self._living(found) if is_ours else None

    def cookie_of(self, login: Login) -> str:
        """Return a cookie's value: the login's name, signed."""
        return f"{login.id}.{self._sum(_COOKIE, login.id)}"

    def end_lapsed(self, lapsed: Collection[Proof]) -> None:
        self._forget_where(lambda login: login.proof in lapsed)

    def end_of_users(self, users: Collection[str]) -> None:
        self._forget_where(lambda login: login.user in users)

    def proofs(self) -> set[Proof]:
        """Return what the logins rest on; those that are over are forgotten."""
        self._forget_where(lambda login: self._living(login) is None)
        return {login.proof for login in self._by_id.values()}

    def users(self) -> set[str]:
        return {login.user for login in self._by_id.values()}

    def _sum(self, name: str, secret: str) -> str:
        parts = (part.encode(errors="surrogatepass") for part in (name, secret))
        message = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def _living(self, login: Login | None) -> Login | None:
        return login if login and self._clock() < login.ends else None

    def _forget_where(self, is_over: Callable[[Login], bool]) -> None:
        for found in [one for one, login in self._by_sum.items() if is_over(login)]:
            self._forget(found)

    def _forget(self, found: str) -> None:
        if login := self._by_sum.pop(found, None):
            del self._by_id[login.id]
