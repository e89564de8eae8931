"""Who is remembered as logged in over HTTP."""

from __future__ import annotations

import pytest

from catalog.access.proofs import Proof
from gateway import http_logins
from gateway.http_logins import BEARER, HttpLogins

ANN, BOB = Proof(1, password="a"), Proof(2, token_id=7)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_login_is_found_by_its_secret_and_its_cookie_alone():
    logins = HttpLogins(60)
    login = logins.remember("ann", "secret", user="ann", proof=ANN)
    cookie = logins.cookie_of(login)
    assert logins.by_secret("ann", "secret") is login
    assert logins.by_cookie(cookie) is login
    for name, secret in (("ann", "x"), ("bob", "secret"), ("anns", "ecret")):
        assert logins.by_secret(name, secret) is None
    for forged in ("", login.id, f"{login.id}.", cookie[:-1], f"{cookie}0", "é.é"):
        assert logins.by_cookie(forged) is None
    assert HttpLogins(60).by_cookie(cookie) is None
    assert "secret" not in cookie


def test_a_name_is_no_bearer():
    logins = HttpLogins(60)
    logins.remember(BEARER, "slt_x", user="ann", proof=ANN)
    assert logins.by_secret("", "slt_x") is None
    assert logins.by_secret(BEARER, "slt_x") is not None


def test_a_login_has_an_end():
    clock = Clock()
    logins = HttpLogins(60, clock=clock)
    login = logins.remember("ann", "secret", user="ann", proof=ANN)
    cookie = logins.cookie_of(login)
    clock.now = 59.9
    assert logins.by_cookie(cookie) is login
    clock.now = 60.0
    assert logins.by_cookie(cookie) is logins.by_secret("ann", "secret") is None
    assert logins.proofs() == logins.users() == set()


def test_a_cookie_of_before_a_new_login_is_void():
    """The same secret again, as after a password that was changed and changed back."""
    logins = HttpLogins(60)
    cookie = logins.cookie_of(logins.remember("ann", "s", user="ann", proof=ANN))
    logins.end_lapsed({ANN})
    logins.remember("ann", "s", user="ann", proof=Proof(1, password="b"))
    assert logins.by_cookie(cookie) is None


@pytest.mark.parametrize("end", ["lapsed", "users"])
def test_a_login_ends_with_its_proof_and_its_user(end):
    logins = HttpLogins(60)
    logins.remember("ann", "secret", user="ann", proof=ANN)
    kept = logins.remember("bob", "secret", user="bob", proof=BOB)
    if end == "lapsed":
        logins.end_lapsed({ANN: "its password was changed"})
    else:
        logins.end_of_users({"ann"})
    assert (logins.proofs(), logins.users()) == ({BOB}, {"bob"})
    assert logins.by_secret("ann", "secret") is None
    assert logins.by_secret("bob", "secret") is kept


def test_the_oldest_logins_go(monkeypatch):
    monkeypatch.setattr(http_logins, "MOST_REMEMBERED", 2)
    logins = HttpLogins(60)
    for name in ("ann", "bob", "eve"):
        logins.remember(name, "secret", user=name, proof=ANN)
    assert logins.users() == {"bob", "eve"}
