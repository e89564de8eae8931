"""One user never has all threads of the web process at work."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from django.test import Client

from catalog.access.tokens import create_token
from catalog.access.users import create_user
from catalog.api.user_concurrency import MOST_OF_ONE_USER, PLACES, take_place

pytestmark = pytest.mark.django_db
CONFIG, SCHEMA, PAGE = "/api/v1/config", "/api/v1/schema", "/tables"


class Person:
    def __init__(self, name: str) -> None:
        user = create_user(name, "correct horse battery", by="root")
        made = create_token(user, name="t", expires_in_days=1, by=name)
        self._rest = Client(headers={"Authorization": f"Bearer {made.text}"})
        self._web = Client()
        self._web.force_login(user, backend="catalog.access.backend.SluiceBackend")

    def get(self, path: str) -> int:
        client = self._rest if path.startswith("/api/") else self._web
        return client.get(path).status_code


def test_one_user_leaves_threads_to_the_others() -> None:
    ann, bob = Person("ann"), Person("bob")
    with ExitStack() as waiting:
        for _ in range(MOST_OF_ONE_USER):
            waiting.callback(take_place("ann").give_back)
        assert (ann.get(CONFIG), ann.get(PAGE)) == (429, 503)
        assert ann.get(SCHEMA) == 429
        assert (bob.get(CONFIG), bob.get(PAGE)) == (200, 200)
    assert (ann.get(CONFIG), ann.get(PAGE)) == (200, 200)


@pytest.mark.parametrize("path", [CONFIG, PAGE])
@pytest.mark.parametrize("more", ["", "/1", "?page_token=x", "?x=%00"])
def test_every_request_gives_its_place_back(path: str, more: str) -> None:
    ann = Person("ann")
    for _ in range(MOST_OF_ONE_USER + 1):
        assert ann.get(path + more) not in {429, 503}
    assert PLACES.taken == 0
