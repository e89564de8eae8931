from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

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
