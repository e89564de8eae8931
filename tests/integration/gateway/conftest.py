"""Users and a running gateway with a fake engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

PASSWORD = "correct-horse-battery"


@pytest.fixture
def users(transactional_db: None, settings: Any) -> dict[str, Any]:
    from django.contrib.auth.models import User

    names = ("ann", "bob")
    return {name: User.objects.create_user(name, password=PASSWORD) for name in names}


@pytest.fixture
def gateway(users: dict[str, Any], tmp_path: Path) -> Iterator[Any]:
    from tests.integration.gateway.running import RunningGateway

    running = RunningGateway(tmp_path)
    yield running
    running.close()


@pytest.fixture
def rest(
    gateway: Any, users: dict[str, Any], settings: Any
) -> Callable[[str], APIClient]:
    """REST as a user of it, at the running gateway."""
    from tests.integration.gateway.running import SECRET

    settings.SLUICE_GATEWAY_INTERNAL = str(gateway.internal_file)
    settings.SLUICE_SERVICE_SECRET = SECRET

    def client(name: str) -> APIClient:
        made = APIClient()
        made.force_login(users[name])
        return made

    return client
