from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.identity_provider import CLIENT, SECRET, IdentityProvider, running_provider

if TYPE_CHECKING:
    from tests.integration.frontend.world import World


@pytest.fixture(autouse=True)
def _small_house(settings):
    settings.STATIC_ROOT.mkdir(exist_ok=True)


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker) -> Iterator[World]:
    """Made once for the tests of a file, in a transaction around theirs: making it cost
    as much as most of them."""
    from django.db import connection, transaction

    from tests.integration.frontend.world import build

    with django_db_blocker.unblock(), transaction.atomic():
        world = build()
        connection.check_constraints()  # none waits for the end of the transaction
        yield world
        transaction.set_rollback(True)


@pytest.fixture
def world(built, db) -> World:
    """A test may change its own copy; what it writes is gone behind it."""
    return copy.deepcopy(built)


@pytest.fixture
def browse(world) -> Callable[[str], Client]:
    """A logged-in client of the user with that name."""
    from django.contrib.auth.models import User

    def as_user(name: str) -> Client:
        client = Client()
        user = User.objects.get(username=name)
        client.force_login(user, backend="catalog.access.backend.SluiceBackend")
        return client

    return as_user


@pytest.fixture(scope="module")
def identity_server() -> Iterator[IdentityProvider]:
    with running_provider() as provider:
        provider.key("first")
        provider.key("second")
        yield provider


@pytest.fixture
def provider(identity_server: IdentityProvider, settings) -> IdentityProvider:
    from catalog.access.oidc_provider import provider_of
    from catalog.access.oidc_spec import OidcSpec
    from tests.integration.frontend.sign_ins import ANN

    server = identity_server
    fresh = IdentityProvider(issuer=server.issuer, keys=server.keys, claims=dict(ANN))
    server.__dict__.update(fresh.__dict__)
    provider_of.cache_clear()
    settings.SLUICE_OIDC = OidcSpec(
        issuer=server.issuer,
        client_id=CLIENT,
        client_secret=SECRET,
        label="the firm",
        allows_plaintext=True,
    )
    return server
