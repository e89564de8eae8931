"""Users and a running gateway with a fake engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
