"""A secret that was typed into a form with mistakes is kept sealed at the server until
the form goes through, never sent back. Who logs out or waits so long types it anew.
"""

from __future__ import annotations

import time

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from catalog.secrets import decrypt, encrypt
from core.errors import TerminalError

KEPT_SECONDS = 1800
MOST_TYPED = 1000
IS_KEPT = _(
    "What you typed is kept, sealed, until this goes through; it is never "
    "shown. Type another one to replace it."
)
_SLOT = "sealed-passwords"
_MOST = 5


def kept_secret(request: HttpRequest, form: str, typed: str) -> str:
    """What was typed there now, or before; a form that is opened begins without."""
    if request.method != "POST":
        forget(request, form)
        return ""
    if typed := typed[:MOST_TYPED]:
        _keep(request, form, typed)
    return typed or _kept(request, form)


def _keep(request: HttpRequest, form: str, secret: str) -> None:
    kept = dict(request.session.get(_SLOT, {}))
    kept.pop(form, None)
    newest = list(kept.items())[1 - _MOST :]
    entry = {"sealed": encrypt(secret), "at": time.time()}
    request.session[_SLOT] = dict([*newest, (form, entry)])


def _kept(request: HttpRequest, form: str) -> str:
    """What was typed there last; "" when nothing is kept or its key is gone."""
    entry = request.session.get(_SLOT, {}).get(form)
    if not entry or time.time() - entry["at"] > KEPT_SECONDS:
        return ""
    try:
        return decrypt(entry["sealed"])
    except TerminalError:
        return ""


def forget(request: HttpRequest, form: str) -> None:
    if form in request.session.get(_SLOT, {}):
        request.session[_SLOT] = {
            name: entry
            for name, entry in request.session[_SLOT].items()
            if name != form
        }
