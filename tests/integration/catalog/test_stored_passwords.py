"""Passwords as earlier releases hashed them."""

from __future__ import annotations

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from catalog.access import authentication, users
from catalog.access.proofs import lapsed
from core.errors import AccessDenied

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture
def ann() -> User:
    return users.create_user("ann", PASSWORD, groups=["bi"], by="root")


def _hashed_as_by_a_former_release(user):
    former = make_password(PASSWORD, hasher="pbkdf2_sha256")
    User.objects.filter(pk=user.pk).update(password=former)
    return former


def test_a_password_hashed_by_a_former_release_is_stored_anew_by_its_login(ann):
    former = _hashed_as_by_a_former_release(ann)
    with pytest.raises(AccessDenied):
        authentication.authenticate("ann", "wrong", door="rest")
    ann.refresh_from_db()
    assert ann.password == former
    proven = authentication.authenticate("ann", PASSWORD, door="rest")
    ann.refresh_from_db()
    assert ann.password.startswith("argon2$argon2id$")
    assert lapsed([proven.proof]) == {}
    assert authentication.authenticate("ann", PASSWORD, door="rest") == proven


def test_of_two_logins_that_store_a_password_anew_both_stay_in(ann, monkeypatch):
    _hashed_as_by_a_former_release(ann)
    proofs = []

    def hash_meanwhile(secret):
        if not proofs:
            proofs.append(None)
            again = authentication.authenticate("ann", PASSWORD, door="rest")
            proofs[:] = [again.proof]
        return make_password(secret)

    monkeypatch.setattr(authentication, "make_password", hash_meanwhile)
    proofs.append(authentication.authenticate("ann", PASSWORD, door="rest").proof)
    assert lapsed(proofs) == {}
