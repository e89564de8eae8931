"""How many passwords the web process checks at once, and whose.

A check takes memory and a core, or waits for a directory, and holds a thread. A
browser in which a user came in before has places that strangers cannot take: a cookie
tells, so that the reply to a stranger tells nothing of who exists.
"""

from __future__ import annotations

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.api.stream_limit import Place, Places
from core.addresses import network_of
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


def login_place(request: HttpRequest, name: str) -> Place:
    """A place, to be held while a password is checked. TransientError when there is
    none."""
    if _is_known(request, name):
        return _required(_known.take(name))
    return _required(_strangers.take(_address_of(request)))


def arrival_place(request: HttpRequest) -> Place:
    """The same, while the identity provider is asked."""
    return _required(_arrivals.take(_address_of(request)))


def _address_of(request: HttpRequest) -> str:
    return network_of(str(request.META.get("REMOTE_ADDR", "")))


def _required(place: Place | None) -> Place:
    if place is None:
        raise TransientError(
            _("other logins are being checked"),
            code="busy",
            hint=_("try again in some seconds"),
        )
    return place


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
