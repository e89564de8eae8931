"""Wrong passwords of strangers hold few threads, and none of those who are known."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from django.test import Client, RequestFactory

from catalog.access.users import create_user
from frontend import login_places
from frontend.login_places import login_place

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def log_in(client: Client, address: str = "10.0.0.9") -> int:
    form = {"username": "ann", "password": PASSWORD}
    status = client.post("/login", form, REMOTE_ADDR=address).status_code
    client.post("/logout")
    return status


def check_one(name: str, address: str) -> ExitStack:
    """A password of a stranger that is being checked."""
    stack = ExitStack()
    request = RequestFactory().post("/login", REMOTE_ADDR=address)
    stack.enter_context(login_place(request, name))
    return stack


def test_strangers_hold_no_place_of_a_known_browser() -> None:
    create_user("ann", PASSWORD, by="root")
    known = Client()
    assert log_in(known) == 302
    with ExitStack() as flood:
        for number in range(login_places.STRANGERS):
            flood.enter_context(check_one(f"no-{number}", f"10.0.0.{number}"))
        assert log_in(Client()) == 503
        assert log_in(known) == 302
    assert log_in(Client()) == 302


@pytest.mark.parametrize(
    ("here", "elsewhere"),
    [("10.0.0.1", "10.0.0.2"), ("2001:db8::{}", "2001:db8:0:1::1")],
    ids=["IPv4", "one network of IPv6"],
)
def test_one_address_leaves_places_to_strangers_elsewhere(
    here: str, elsewhere: str
) -> None:
    create_user("ann", PASSWORD, by="root")
    with ExitStack() as flood:
        for number in range(login_places.OF_ONE_ADDRESS):
            flood.enter_context(check_one(f"no-{number}", here.format(number)))
        assert log_in(Client(), here.format(9)) == 503
        assert log_in(Client(), elsewhere) == 302


def test_one_known_user_leaves_places_to_the_others() -> None:
    create_user("ann", PASSWORD, by="root")
    client = Client()
    assert log_in(client) == 302
    request = RequestFactory().post("/login")
    request.COOKIES[login_places.COOKIE] = client.cookies[login_places.COOKIE].value
    with ExitStack() as many:
        for _ in range(login_places.OF_ONE_USER):
            many.enter_context(login_place(request, "ann"))
        assert log_in(client) == 503


def test_a_cookie_makes_no_other_user_known() -> None:
    create_user("ann", PASSWORD, by="root")
    create_user("bob", PASSWORD, by="root")
    client = Client()
    form = {"username": "bob", "password": PASSWORD}
    assert client.post("/login", form).status_code == 302
    client.post("/logout")
    with ExitStack() as flood:
        for number in range(login_places.STRANGERS):
            flood.enter_context(check_one(f"no-{number}", f"10.0.0.{number}"))
        assert log_in(client) == 503
        assert client.post("/login", form).status_code == 302
