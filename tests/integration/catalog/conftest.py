"""Cheap password hashes for all tests of the catalog but those about their cost."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _cheap_hashes(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
