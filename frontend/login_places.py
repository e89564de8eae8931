"""How many passwords the web process checks at once, and whose.

A check takes memory and a core, or waits for a directory, and holds a thread. A
browser in which a user came in before has places that strangers cannot take: a cookie
tells, so that the reply to a stranger tells nothing of who exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.api.places import Place, Places
from core.errors import TransientError

COOKIE = "sluice_known"
REMEMBERED_SECONDS = 180 * 24 * 3600
STRANGERS, OF_ONE_ADDRESS = 3, 2
KNOWN, OF_ONE_USER = 4, 2
_strangers = Places(most=STRANGERS, most_each=OF_ONE_ADDRESS)
_known = Places(most=KNOWN, most_each=OF_ONE_USER)
# Anybody can come back from the provider, with any code, which it is asked about.
ARRIVALS, ARRIVALS_OF_ONE_ADDRESS = 6, 3
_arrivals = Places(most=ARRIVALS, most_each=ARRIVALS_OF_ONE_ADDRESS)


@contextlib.contextmanager
def login_place(request: HttpRequest, name: str) -> Iterator[None]:
    """Hold a place while a password is checked. TransientError when there is none."""
    if _is_known(request, name):
        place = _known.take(name)
    else:
        place = _strangers.take(str(request.META.get("REMOTE_ADDR", "")))
    with _held(place):
        yield


@contextlib.contextmanager
def arrival_place(request: HttpRequest) -> Iterator[None]:
    """Hold a place while the identity provider is asked. TransientError when there is
    none."""
    with _held(_arrivals.take(str(request.META.get("REMOTE_ADDR", "")))):
        yield


@contextlib.contextmanager
def _held(place: Place | None) -> Iterator[None]:
    if place is None:
        raise TransientError(
            _("other logins are being checked"),
            code="busy",
            hint=_("try again in some seconds"),
        )
    try:
        yield
    finally:
        place.give_back()


def remember(response: HttpResponse, name: str) -> None:
    """Let this browser's next login of that user be a known one."""
    response.set_cookie(
        COOKIE,
        _signer().signature(name),
        max_age=REMEMBERED_SECONDS,
        path=reverse("frontend:login"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _is_known(request: HttpRequest, name: str) -> bool:
    try:
        _signer().unsign(f"{name}:{request.COOKIES.get(COOKIE, '')}")
    except BadSignature:
        return False
    return True


def _signer() -> Signer:
    return Signer(salt="sluice.known")
