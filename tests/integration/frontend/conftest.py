from __future__ import annotations

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


@pytest.fixture
def world(db) -> World:
    from tests.integration.frontend.world import build

    return build()


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
